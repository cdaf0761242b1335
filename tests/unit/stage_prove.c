/* What the child is given that proves an origin. This program is the child, too: it is started once more. */
#include "client/admin/stage_prove_proc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

extern char **environ;

/* Instead of fetching: a line about its environment. */
static int child(void)
{
    const char *proxy = getenv("https_proxy");
    const char *secret = "no keys";

    for (size_t i = 0; environ[i] != NULL; i++) {
        if (strncmp(environ[i], "AWS_", 4) == 0) {
            secret = environ[i];
        }
    }
    (void)fprintf(stderr, "proxy %s, %s\n", proxy != NULL ? proxy : "none", secret);
    return 1;
}

/* It needs none, and parses what anybody answers. What else there is, as proxies, it has as a mount's child has. */
static void the_child_knows_no_keys(void **state)
{
    struct origin origin;
    struct errmsg why = { "" };

    (void)state;
    origin_init(&origin);
    strcpy(origin.url, "https://example.org/genbank.tar");
    strcpy(origin.etag, "\"abc\"");
    origin.size = 1234;
    assert_int_equal(setenv("AWS_ACCESS_KEY_ID", "id", 1), 0);
    assert_int_equal(setenv("https_proxy", "http://proxy:3128", 1), 0);
    assert_int_equal(setenv("AWS_SECRET_ACCESS_KEY", "secret", 1), 0);
    assert_int_equal(setenv("AWS_SESSION_TOKEN", "token", 1), 0);
    assert_false(stage_prove(&origin, &why));
    assert_string_equal(why.text, "proxy http://proxy:3128, no keys");
    assert_string_equal(getenv("AWS_SECRET_ACCESS_KEY"), "secret"); /* Ours stay. */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_child_knows_no_keys),
    };

    if (argc > 1 && strcmp(argv[1], "origin-part") == 0) {
        return child();
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
