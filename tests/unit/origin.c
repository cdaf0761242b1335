/* Origins: which URLs may be, what is the same, and that records and texts come back as they were, or are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/slice.h"
#include "common/base/status.h"
#include "common/fs/origin.h"

#include <string.h>

static struct origin sample(void)
{
    struct origin o;

    origin_init(&o);
    strcpy(o.url, "https://example.org/genbank.tar");
    strcpy(o.etag, "\"abc\"");
    o.size = 1234;
    o.modified_s = 1700000000;
    return o;
}

static void urls_are_judged(void **state)
{
    static const char *const good[] = { "http://h/x",   "https://h:1/x?y",
                                        "ftp://h/",     "sftp://me@h/x",
                                        "file:///x",    "http://me@[::1]:80/x",
                                        "morsel://1/x", "morsel://9999999999999999999/a/b%20c" };
    static const char *const wrong[] = { "",
                                         "gopher://h/x",
                                         "http://",
                                         "http://h",
                                         "http:///x",
                                         "file://h/x",
                                         "file://",
                                         "http://h/a b",
                                         "http://h/#",
                                         "http://h/\xc3",
                                         "HTTP://h/x",
                                         "http://me:secret@h/x",
                                         "morsel://",
                                         "morsel:///x",
                                         "morsel://1",
                                         "morsel://0/x",
                                         "morsel://01/x",
                                         "morsel://1a/x",
                                         "morsel://-1/x",
                                         "morsel://1?/x",
                                         "morsel://10000000000000000000/x",
                                         "morsel://me@1/x" };
    char large[ORIGIN_URL_MAX + 2];

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_null(origin_url_wrong(good[i]));
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_non_null(origin_url_wrong(wrong[i]));
    }
    memset(large, 'x', sizeof(large));
    memcpy(large, "http://h/", 9);
    large[ORIGIN_URL_MAX + 1] = '\0';
    assert_non_null(origin_url_wrong(large));
    large[ORIGIN_URL_MAX] = '\0';
    assert_null(origin_url_wrong(large));
}

static void what_differs_is_another(void **state)
{
    struct origin a = sample(), b = sample();

    (void)state;
    assert_true(origin_same(&a, &b));
    strcpy(b.etag, "\"abd\"");
    assert_false(origin_same(&a, &b));
    b = sample();
    b.size++;
    assert_false(origin_same(&a, &b));
    b = sample();
    b.modified_s++;
    assert_false(origin_same(&a, &b));
    b = sample();
    b.url[0] = 'f';
    assert_false(origin_same(&a, &b));
    b = sample(); /* What one of them does not say does not differ. */
    b.etag[0] = '\0';
    b.size = ORIGIN_SIZE_UNKNOWN;
    b.modified_s = ORIGIN_TIME_UNKNOWN;
    assert_true(origin_same(&a, &b));
    assert_true(origin_is_dated(&a));
    assert_false(origin_is_dated(&b));
    strcpy(b.etag, "W/\"abc\""); /* It would be the same for other bytes. */
    assert_false(origin_is_dated(&b));
}

static void come_back(const struct origin *o)
{
    char text[ORIGIN_TEXT_MAX];
    struct origin again;
    struct buf record;

    buf_init(&record);
    origin_encode(o, &record);
    assert_int_equal(origin_decode(buf_slice(&record), &again), 0);
    assert_true(strcmp(o->url, again.url) == 0 && strcmp(o->etag, again.etag) == 0 &&
                o->size == again.size && o->modified_s == again.modified_s &&
                o->proven == again.proven);
    for (size_t count = 0; count < record.count; count++) {
        assert_int_equal(origin_decode((struct slice){ record.data, count }, &again),
                         MORSEL_CORRUPT);
    }
    buf_put_u8(&record, 0);
    assert_int_equal(origin_decode(buf_slice(&record), &again), MORSEL_CORRUPT);
    record.data[0] = 3;
    assert_int_equal(origin_decode(buf_slice(&record), &again), MORSEL_VERSION);
    buf_free(&record);
    origin_format(o, text);
    assert_int_equal(origin_parse(slice_text(text), &again), 0);
    assert_true(strcmp(o->url, again.url) == 0 && strcmp(o->etag, again.etag) == 0 &&
                o->size == again.size && o->modified_s == again.modified_s &&
                o->proven == again.proven);
}

static void records_and_texts_come_back(void **state)
{
    struct origin o = sample();

    (void)state;
    come_back(&o);
    o.proven = true;
    come_back(&o);
    o.proven = false;
    o.etag[0] = '\0';
    o.modified_s = -5;
    come_back(&o);
    o.modified_s = ORIGIN_TIME_UNKNOWN;
    o.size = INT64_MAX;
    come_back(&o);
    o.size = ORIGIN_SIZE_UNKNOWN;
    memset(o.url + 20, 'x', ORIGIN_URL_MAX - 20);
    memset(o.etag, 'e', ORIGIN_ETAG_MAX);
    o.url[ORIGIN_URL_MAX] = o.etag[ORIGIN_ETAG_MAX] = '\0';
    come_back(&o);
}

static void what_is_no_origin_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "url=http://h/x",
        "size=1\n",
        "url=nothing\n",
        "url=http://h/x\nsize=\n",
        "url=http://h/x\nsize=-1\n",
        "url=http://h/x\nsize=9223372036854775808\n",
        "url=http://h/x\nsize=99999999999999999999\n",
        "url=http://h/x\nmodified=1x\n",
        "url=http://h/x\netag=a b\n",
        "url=http://h/x\nsize=1\nsize=1\n",
        "url=http://h/x\nother=1\n",
    };
    struct origin o = sample();
    struct buf record;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_int_equal(origin_parse(slice_text(texts[i]), &o), MORSEL_MALFORMED);
    }
    assert_int_equal(origin_parse((struct slice){ (const uint8_t *)"url=http://h/x\0y\n", 17 }, &o),
                     MORSEL_MALFORMED);
    o = sample();
    o.size = (uint64_t)INT64_MAX + 1;
    buf_init(&record);
    origin_encode(&o, &record);
    assert_int_equal(origin_decode(buf_slice(&record), &o), MORSEL_CORRUPT);
    buf_free(&record);
}

/* Which server, and which file: both ends, as much as there is room for. */
static void of_a_long_url_the_middle_is_not_shown(void **state)
{
    char url[ORIGIN_URL_MAX + 1], text[ORIGIN_SHOWN_MAX];

    (void)state;
    for (size_t count = 1; count < sizeof(url); count++) {
        memset(url, 'x', count);
        url[0] = 'h';
        url[count - 1] = 'z';
        url[count] = '\0';
        assert_ptr_equal(origin_url_shown(url, text), text);
        if (count < ORIGIN_SHOWN_MAX) {
            assert_string_equal(text, url);
            continue;
        }
        assert_true(strlen(text) >= ORIGIN_SHOWN_MAX - 2 && strlen(text) < ORIGIN_SHOWN_MAX);
        assert_true(text[0] == 'h' && text[strlen(text) - 1] == 'z');
        assert_non_null(strstr(text, "x...x"));
    }
}

static void files_of_the_cluster_are_inodes_and_paths(void **state)
{
    struct origin o = sample();
    const char *path;

    (void)state;
    assert_false(origin_is_inside(&o));
    assert_true(origin_is_visited(&o));
    strcpy(o.url, "morsel://4711/a/b%20c");
    assert_true(origin_is_inside(&o));
    assert_false(origin_is_visited(&o));
    assert_true(origin_may_be_proven(&o));
    assert_int_equal(origin_source(&o, &path), 4711);
    assert_string_equal(path, "/a/b%20c");
}

static void names_are_taken_off_paths(void **state)
{
    static const struct
    {
        const char *path, *name, *rest; /* NULL: there is none. */
    } cases[] = {
        { "a", "a", "" },
        { "a/b", "a", "/b" },
        { "a%20%2Fb/", "a /b", "/" },
        { "%c3%BC", "\xc3\xbc", "" },
        { "..", "..", "" },
        { "a?b", "a?b", "" },
        { "", NULL, NULL },
        { "/a", NULL, NULL },
        { "%00", NULL, NULL },
        { "a%0", NULL, NULL },
        { "a%", NULL, NULL },
        { "a%g0", NULL, NULL },
        { "a%0g", NULL, NULL },
    };
    char name[NAME_BYTES_MAX], large[NAME_BYTES_MAX + 2];
    size_t count;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *rest = origin_take_name(cases[i].path, name, &count);

        if (cases[i].name == NULL) {
            assert_null(rest);
        } else {
            assert_string_equal(rest, cases[i].rest);
            assert_int_equal(count, strlen(cases[i].name));
            assert_memory_equal(name, cases[i].name, count);
        }
    }
    memset(large, 'x', sizeof(large));
    large[NAME_BYTES_MAX + 1] = '\0';
    assert_null(origin_take_name(large, name, &count));
    large[NAME_BYTES_MAX] = '\0';
    assert_string_equal(origin_take_name(large, name, &count), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_are_judged),
        cmocka_unit_test(what_differs_is_another),
        cmocka_unit_test(records_and_texts_come_back),
        cmocka_unit_test(what_is_no_origin_is_refused),
        cmocka_unit_test(of_a_long_url_the_middle_is_not_shown),
        cmocka_unit_test(files_of_the_cluster_are_inodes_and_paths),
        cmocka_unit_test(names_are_taken_off_paths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
