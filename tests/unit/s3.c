/* Objects of S3: their URLs by the published rules, what a file of keys says, and what a refusal means. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/admin/s3.h"
#include "common/base/status.h"

#include <stdio.h>
#include <string.h>

static struct s3_access at(const char *endpoint, const char *region)
{
    struct s3_access access = { .id = "" };

    (void)snprintf(access.endpoint, sizeof(access.endpoint), "%s", endpoint);
    (void)snprintf(access.region, sizeof(access.region), "%s", region);
    return access;
}

static void assert_url(const char *given, const struct s3_access *access, const char *expected)
{
    char url[ORIGIN_URL_MAX + 1];
    struct errmsg why = { "" };

    assert_true(s3_url(given, access, url, &why));
    assert_string_equal(url, expected);
    assert_null(origin_url_wrong(url));
}

static void assert_wrong(const char *given, const struct s3_access *access, const char *words)
{
    char url[ORIGIN_URL_MAX + 1];
    struct errmsg why = { "" };

    assert_false(s3_url(given, access, url, &why));
    assert_non_null(strstr(why.text, words));
}

static void objects_of_amazon_have_the_bucket_in_the_host(void **state)
{
    struct s3_access west = at("", "us-west-2"), china = at("", "cn-north-1");

    (void)state;
    assert_url("s3://amzn-s3-demo-bucket1/photos/puppy.jpg", &west,
               "https://amzn-s3-demo-bucket1.s3.us-west-2.amazonaws.com/photos/puppy.jpg");
    assert_url("s3://abc/x", &china, "https://abc.s3.cn-north-1.amazonaws.com.cn/x");
    /* No certificate is for two names in the place of one. */
    assert_url("s3://example.com/x", &west, "https://s3.us-west-2.amazonaws.com/example.com/x");
}

static void objects_of_an_endpoint_have_it_in_the_path(void **state)
{
    struct s3_access plain = at("http://192.0.2.1:9000", "us-east-1");
    struct s3_access deep = at("https://store.example.org/s3//", "us-east-1");

    (void)state;
    assert_url("s3://bucket/a/b", &plain, "http://192.0.2.1:9000/bucket/a/b");
    assert_url("s3://bucket/a", &deep, "https://store.example.org/s3/bucket/a");
    assert_url("s3://bucket//a//b/", &plain, "http://192.0.2.1:9000/bucket//a//b/");
}

/* All bytes but A-Z a-z 0-9 - . _ ~ and the slash are spelled, with large digits. */
static void keys_are_spelled(void **state)
{
    struct s3_access access = at("http://h", "us-east-1");
    char given[16] = "s3://bkt/x", expected[32];

    (void)state;
    assert_url("s3://bkt/a b+c%20d?e#f", &access, "http://h/bkt/a%20b%2Bc%2520d%3Fe%23f");
    assert_url("s3://bkt/\xc3\xbc\xe2\x82\xac~-._", &access, "http://h/bkt/%C3%BC%E2%82%AC~-._");
    assert_url("s3://bkt/...", &access, "http://h/bkt/...");
    for (int c = ' '; c < 256; c++) {
        static const char digits[] = "0123456789ABCDEF";
        bool plain =
            c < 127 &&
            strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_~/", c) != NULL;

        if (c == '.' || c == 127) {
            continue; /* The one alone is no key of ours. */
        }
        given[9] = (char)c;
        strcpy(expected, "http://h/bkt/");
        strncat(expected, plain ? given + 9 : (char[]){ '%', digits[c / 16], digits[c % 16], 0 },
                3);
        assert_url(given, &access, expected);
    }
}

static void what_is_no_object_is_refused(void **state)
{
    static const struct
    {
        const char *given, *words;
    } cases[] = {
        { "s3://", "3 to 63" },
        { "s3:///key", "3 to 63" },
        { "s3://ab/key", "3 to 63" },
        { "s3://a123456789b123456789c123456789d123456789e123456789f123456789abcd/key", "3 to 63" },
        { "s3://Bucket/key", "small letters" },
        { "s3://buc_ket/key", "small letters" },
        { "s3://bucket:8/key", "small letters" },
        { "s3://me@bucket/key", "small letters" },
        { "s3://-bucket/key", "begins and ends" },
        { "s3://bucket./key", "begins and ends" },
        { "s3://buc..ket/key", "two dots" },
        { "s3://192.168.5.4/key", "address" },
        { "s3://bucket", "names no object" },
        { "s3://bucket/", "names no object" },
        { "s3://bucket/a\nb", "control" },
        { "s3://bucket/a\x7f", "control" },
        { "s3://bucket/.", "\"..\"" },
        { "s3://bucket/../other/key", "\"..\"" },
        { "s3://bucket/a/./b", "\"..\"" },
        { "s3://bucket/a/..", "\"..\"" },
    };
    struct s3_access access = at("", "us-east-1");

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_wrong(cases[i].given, &access, cases[i].words);
    }
    assert_true(s3_is("s3://x"));
    assert_false(s3_is("s3:/x"));
}

static void the_longest_are_taken(void **state)
{
    struct s3_access access = at("", "us-east-1");
    char given[2048] = "s3://bucket/", url[ORIGIN_URL_MAX + 1];

    (void)state;
    assert_url("s3://a123456789b123456789c123456789d123456789e123456789f123456789abc/k", &access,
               "https://a123456789b123456789c123456789d123456789e123456789f123456789abc"
               ".s3.us-east-1.amazonaws.com/k");
    memset(given + 12, 'k', S3_KEY_MAX);
    assert_true(s3_url(given, &access, url, NULL));
    given[12 + S3_KEY_MAX] = 'k';
    assert_wrong(given, &access, "1024");
    given[12 + S3_KEY_MAX] = '\0';
    memset(given + 12, ' ', S3_KEY_MAX); /* Each is three bytes of a URL. */
    assert_wrong(given, &access, "too long");
}

static void where_it_is_asked_for_is_judged(void **state)
{
    static const char *const endpoints[] = {
        "ftp://h",      "h",          "http://",   "http:///x",
        "https://me@h", "http://h?x", "http://h#", "http://h x"
    };
    struct s3_access access;

    (void)state;
    for (size_t i = 0; i < sizeof(endpoints) / sizeof(endpoints[0]); i++) {
        access = at(endpoints[i], "us-east-1");
        assert_wrong("s3://bucket/key", &access, "endpoint");
    }
    access = at("", "evil.example/");
    assert_wrong("s3://bucket/key", &access, "no region");
    access = at("", "");
    assert_wrong("s3://bucket/key", &access, "no region");
}

static int setting(const char *file, const char *section, const char *name, char value[9])
{
    (void)snprintf(value, 9, "before");
    return s3_setting(slice_text(file), section, name, value, 8);
}

static void files_of_keys_are_read(void **state)
{
    static const char file[] = "# comment\n"
                               "id = nowhere\n"
                               "[default]\r\n"
                               "s3 =\n"
                               "  id = nested\n"
                               ";id = none\n"
                               "id = one\r\n"
                               "empty =\n"
                               "long = 123456789\n"
                               "same = a=b\n"
                               "[ two ]\n"
                               "\n"
                               "id=12345678";
    char value[9];

    (void)state;
    assert_int_equal(setting(file, "default", "id", value), 0);
    assert_string_equal(value, "one");
    assert_int_equal(setting(file, "two", "id", value), 0);
    assert_string_equal(value, "12345678");
    assert_int_equal(setting(file, "default", "same", value), 0);
    assert_string_equal(value, "a=b");
    assert_int_equal(setting(file, "default", "empty", value), MORSEL_NOENT);
    assert_int_equal(setting(file, "default", "long", value), MORSEL_TOO_LARGE);
    assert_string_equal(value, "before");
    assert_int_equal(setting(file, "two", "long", value), MORSEL_NOENT);
    assert_int_equal(setting(file, "three", "id", value), MORSEL_NOENT);
    assert_int_equal(setting("[default]\nid", "default", "id", value), MORSEL_NOENT);
    assert_int_equal(s3_setting((struct slice){ NULL, 0 }, "default", "id", value, 8),
                     MORSEL_NOENT);
}

static void keys_have_no_ends_of_lines(void **state)
{
    struct s3_access access = at("", "us-east-1");

    (void)state;
    (void)snprintf(access.id, sizeof(access.id), "%s", "AKIA");
    (void)snprintf(access.secret, sizeof(access.secret), "%s", "a/b+c=");
    assert_true(s3_keys_sound(&access));
    (void)snprintf(access.token, sizeof(access.token), "%s", "x\r\nX-Other: y");
    assert_false(s3_keys_sound(&access));
}

static void assert_refused(int answer, const char *body, const char *region, bool has_keys,
                           const char *words)
{
    struct s3_access access = at("", "us-east-1");
    struct errmsg why;

    (void)snprintf(access.id, sizeof(access.id), "%s", has_keys ? "AKIA" : "");
    s3_refused(answer, body, region, &access, &why);
    if (strstr(why.text, words) == NULL) {
        fail_msg("%d %s: \"%s\", not \"%s\"", answer, body, why.text, words);
    }
    assert_null(strchr(why.text, '\n'));
}

static void refusals_say_what_to_do(void **state)
{
    (void)state;
    assert_refused(403, "<Error><Code>SignatureDoesNotMatch</Code>", "", true,
                   "the secret key is not the one of the key ID (403 SignatureDoesNotMatch)");
    assert_refused(403, "<Code>InvalidAccessKeyId</Code>", "", true, "key ID");
    assert_refused(400, "<Code>ExpiredToken</Code>", "", true, "expired");
    assert_refused(403, "<Code>AccessDenied</Code>", "", true, "no right");
    assert_refused(403, "<Code>AccessDenied</Code>", "", false, "AWS_ACCESS_KEY_ID");
    assert_refused(403, "", "", true, "no right to read it (403)");
    assert_refused(404, "<Code>NoSuchKey</Code>", "eu-west-1", true, "no such object");
    assert_refused(301, "<Code>PermanentRedirect</Code>", "eu-west-1", false,
                   "AWS_REGION=eu-west-1");
    assert_refused(400, "<Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region>", "",
                   true, "AWS_REGION=eu-west-1");
    assert_refused(307, "", "", true, "elsewhere");
    assert_refused(500, "<Code>Internal\nError</Code>", "x y", true, "the server refuses (500)");
    assert_refused(403, "<Code>SignatureDoesNot", "", true, "no right to read it (403)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_of_amazon_have_the_bucket_in_the_host),
        cmocka_unit_test(objects_of_an_endpoint_have_it_in_the_path),
        cmocka_unit_test(keys_are_spelled),
        cmocka_unit_test(what_is_no_object_is_refused),
        cmocka_unit_test(the_longest_are_taken),
        cmocka_unit_test(where_it_is_asked_for_is_judged),
        cmocka_unit_test(files_of_keys_are_read),
        cmocka_unit_test(keys_have_no_ends_of_lines),
        cmocka_unit_test(refusals_say_what_to_do),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
