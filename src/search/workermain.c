/* rowfold-worker: started by a search with a socket as descriptor 3; of no use to people. */
#include "worker.h"

#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

int main(void) {
    int type;
    socklen_t n = sizeof type;
    if (getsockopt(WIRE_FD, SOL_SOCKET, SO_TYPE, &type, &n)) {
        fputs("rowfold-worker: rowfold starts this program by itself, to try candidates in\n", stderr);
        return 2;
    }
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a kernel that hangs would never see the socket close */
#endif
    signal(SIGXFSZ, SIG_IGN); /* as the search has it, whose limits these are */
    return worker_serve(WIRE_FD, NULL);
}
