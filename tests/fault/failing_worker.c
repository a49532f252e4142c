/* A worker in which the call of the operating system whose number is in ROWFOLD_FAIL_CALL fails. Its name goes to the
 * file ROWFOLD_FAULT_LOG. */
#include "../../src/search/worker.h"
#include "system_calls.h"

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the linker's names */
static void write_down(const char *what) {
    const char *log = getenv("ROWFOLD_FAULT_LOG");
    const int fd = log ? __real_open64(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    if (fd >= 0 && __real_write(fd, what, strlen(what)) < 0) _exit(1);
    if (fd >= 0) __real_close(fd);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

int main(void) {
    const char *call = getenv("ROWFOLD_FAIL_CALL");
    told_of = write_down;
    of_system.left = call ? atol(call) : 0;
    return worker_serve(WIRE_FD, NULL);
}
