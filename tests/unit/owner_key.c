/* The key of a donated directory: who finds the benefactor that runs with it. */
#include "common/daemon/owner_key_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int parse(const char *text, struct owner_key *key, struct errmsg *err)
{
    return owner_key_parse((struct slice){ (const uint8_t *)text, strlen(text) }, "/srv", key, err);
}

#define SECRET "000102030405060708090a0b0c0d0e0f"

static void the_text_is_the_one_of_the_header(void **state)
{
    const char *text = "format = 1\nlock = 1311\nsecret = " SECRET "\naddress = 127.0.0.1:7462\n";
    char again[OWNER_KEY_TEXT_BYTES_MAX];
    struct owner_key key;

    (void)state;
    assert_int_equal(parse(text, &key, NULL), 0);
    assert_true(key.lock == 1311 && key.secret[15] == 15);
    assert_string_equal(key.address, "127.0.0.1:7462");
    assert_int_equal(owner_key_format(&key, again), strlen(text));
    assert_string_equal(again, text);
}

static void other_texts_are_refused_in_words(void **state)
{
    static const char *const bad[] = {
        "",
        "format = 0\nlock = 1\nsecret = " SECRET "\naddress = a:1\n",
        "format = 1\nlock = 1\nsecret = " SECRET "\n",
        "format = 1\nlock = 01\nsecret = " SECRET "\naddress = a:1\n",
        "format = 1\nlock = 1\nsecret = " SECRET "0\naddress = a:1\n",
        "format = 1\nlock = 1\nsecret = 00\naddress = a:1\n",
        "format = 1\nlock = 1\nsecret = " SECRET "\naddress = a:1",
        "format = 1\nlock = 1\nsecret = " SECRET "\naddress = a:1\nmore = 1\n",
    };
    struct owner_key key;
    struct errmsg err;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(parse(bad[i], &key, &err), MORSEL_CORRUPT);
        assert_non_null(strstr(err.text, "/srv/key"));
        assert_true(key.lock == 0 && key.address[0] == '\0');
    }
    assert_int_equal(parse("format = 7\n", &key, &err), MORSEL_VERSION);
}

static void everywhere_is_also_here(void **state)
{
    char address[OWNER_ADDRESS_BYTES_MAX];

    (void)state;
    owner_key_address("0.0.0.0:7462", address);
    assert_string_equal(address, "127.0.0.1:7462");
    owner_key_address("[::]:7462", address);
    assert_string_equal(address, "[::1]:7462");
    owner_key_address("192.0.2.7:1", address);
    assert_string_equal(address, "192.0.2.7:1");
}

static void secrets_are_equal_in_all_bytes(void **state)
{
    uint8_t a[OWNER_SECRET_BYTES] = { 1, 2, 3 }, b[OWNER_SECRET_BYTES] = { 1, 2, 3 };

    (void)state;
    assert_true(owner_secret_equal(a, b));
    for (size_t i = 0; i < 8 * OWNER_SECRET_BYTES; i++) {
        b[i / 8] ^= (uint8_t)(1U << i % 8);
        assert_false(owner_secret_equal(a, b));
        b[i / 8] ^= (uint8_t)(1U << i % 8);
    }
}

/* A directory of a benefactor that runs, and what is done to it by the shell. */
struct place
{
    char dir[64], data[96];
    struct datadir datadir;
    struct owner_key key;
};

static void place_init(struct place *p)
{
    snprintf(p->dir, sizeof(p->dir), "/tmp/morsel-owner-key-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    snprintf(p->data, sizeof(p->data), "%s/data", p->dir);
    assert_int_equal(datadir_open(&p->datadir, p->data, "benefactor", NULL), 0);
    assert_int_equal(owner_key_make(&p->datadir, "0.0.0.0:7462", &p->key, NULL), 0);
}

static void shell(const struct place *p, const char *command)
{
    char line[256];

    snprintf(line, sizeof(line), "cd '%s' && %s", p->dir, command);
    assert_int_equal(system(line), 0);
}

static void place_end(struct place *p)
{
    datadir_close(&p->datadir);
    shell(p, "rm -rf '../'\"${PWD##*/}\"");
}

static int read_of(const struct place *p, const char *name, struct owner_key *key,
                   struct errmsg *err)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/%s", p->dir, name);
    return owner_key_read(path, key, err);
}

static void who_can_read_the_directory_finds_it(void **state)
{
    struct owner_key key, second;
    struct errmsg err;
    struct place p;
    struct stat st;
    char path[128];

    (void)state;
    place_init(&p);
    assert_int_equal(read_of(&p, "data", &key, NULL), 0);
    assert_memory_equal(key.secret, p.key.secret, sizeof(key.secret));
    assert_string_equal(key.address, "127.0.0.1:7462");
    snprintf(path, sizeof(path), "%s/key", p.data);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(owner_key_make(&p.datadir, "0.0.0.0:7462", &second, NULL), 0);
    assert_memory_not_equal(key.secret, second.secret,
                            sizeof(key.secret)); /* New in each process. */
    shell(&p, "mv data moved");                  /* It may be moved while it runs. */
    assert_int_equal(read_of(&p, "moved", &key, NULL), 0);
    shell(&p, "mv moved data");
    owner_key_remove(&p.datadir);
    owner_key_remove(&p.datadir);
    assert_int_equal(read_of(&p, "data", &key, &err), MORSEL_NOENT);
    assert_non_null(strstr(err.text, "start morsel-benefactor"));
    assert_int_equal(read_of(&p, "nowhere", &key, &err), MORSEL_NOENT);
    place_end(&p);
}

static void a_copy_speaks_for_nobody(void **state)
{
    struct owner_key key;
    struct errmsg err;
    struct place p;

    (void)state;
    place_init(&p);
    shell(&p, "cp -a data copy");
    assert_int_equal(read_of(&p, "copy", &key, &err), MORSEL_NOENT);
    assert_non_null(strstr(err.text, "/copy"));
    place_end(&p);
}

static void strange_files_hold_nobody_up(void **state)
{
    struct owner_key key;
    struct place p;

    (void)state;
    place_init(&p);
    shell(&p, "rm data/key && mkfifo data/key");
    assert_int_equal(read_of(&p, "data", &key, NULL), MORSEL_CORRUPT);
    shell(&p, "rm data/key && ln -s lock data/key");
    assert_int_equal(read_of(&p, "data", &key, NULL), MORSEL_IO);
    shell(&p, "rm data/key && mkdir data/key");
    assert_int_equal(read_of(&p, "data", &key, NULL), MORSEL_IO);
    shell(&p, "rmdir data/key && head -c 100000 /dev/zero >data/key");
    assert_int_equal(read_of(&p, "data", &key, NULL), MORSEL_CORRUPT);
    place_end(&p);
}

static void without_a_word_it_is_the_users_own(void **state)
{
    char path[CONFIG_STRING_MAX];

    (void)state;
    assert_int_equal(owner_data_dir(path, NULL), 0);
    if (geteuid() == 0) {
        assert_string_equal(path, "/var/lib/morselfs/benefactor");
    } else {
        assert_non_null(strstr(path, "/morselfs"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_is_the_one_of_the_header),
        cmocka_unit_test(other_texts_are_refused_in_words),
        cmocka_unit_test(everywhere_is_also_here),
        cmocka_unit_test(secrets_are_equal_in_all_bytes),
        cmocka_unit_test(who_can_read_the_directory_finds_it),
        cmocka_unit_test(a_copy_speaks_for_nobody),
        cmocka_unit_test(strange_files_hold_nobody_up),
        cmocka_unit_test(without_a_word_it_is_the_users_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
