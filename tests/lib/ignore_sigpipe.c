/* In each unit test, as in the programs (daemon_uv.h): who writes to a connection that the other side has just closed gets an
 * error, and not a signal that ends it. */
#include <signal.h>

__attribute__((constructor)) static void ignore_sigpipe(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
}
