/* The overlay of a read against a range that is painted byte by byte. */
#include "client/data/overlay.h"

#include "common/base/prng.h"
#include "tests/lib/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

enum { RANGE = 200, START = 5000, CHUNKS = 12, ROUNDS = 3000 };

/* What a byte is: of a chunk, a zero of one, or the servers'. */
enum { SERVERS = -1 };

struct model
{
    int painted[RANGE];
    uint8_t chunk[CHUNKS][RANGE];
};

static void add_one(struct overlay *o, struct model *m, struct prng *prng, unsigned number)
{
    unsigned from = (unsigned)prng_below(prng, RANGE);
    unsigned to = from + (unsigned)prng_below(prng, RANGE - from + 1);
    bool zeros = prng_below(prng, 4) == 0;

    memset(m->chunk[number], (int)number + 1, RANGE);
    assert_true(overlay_add(o, START + from, START + to, zeros ? NULL : m->chunk[number]));
    for (unsigned i = from; i < to; i++) {
        if (m->painted[i] == SERVERS) {
            m->painted[i] = zeros ? 0 : (int)number + 1;
        }
    }
}

static void check(const struct overlay *o, const struct model *m)
{
    int seen[RANGE];
    uint64_t before = START;

    for (unsigned i = 0; i < RANGE; i++) {
        seen[i] = SERVERS;
    }
    for (unsigned i = 0; i < o->count; i++) {
        const struct overlay_piece *piece = &o->pieces[i];

        assert_true(before <= piece->from && piece->from < piece->to);
        before = piece->to;
        for (uint64_t at = piece->from; at < piece->to; at++) {
            seen[at - START] = piece->bytes == NULL ? 0 : piece->bytes[at - piece->from];
        }
    }
    assert_memory_equal(seen, m->painted, sizeof(seen));
    for (unsigned i = 0; i < RANGE; i++) {
        unsigned until = i;

        while (until < RANGE && m->painted[until] != SERVERS) {
            until++;
        }
        assert_int_equal(overlay_until(o, START + i), START + until);
    }
}

static void the_youngest_chunk_is_seen(void **state)
{
    struct prng prng;

    (void)state;
    prng_seed(&prng, test_seed_first());
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct overlay o = { .count = 0 };
        struct model m;
        unsigned count = (unsigned)prng_below(&prng, CHUNKS + 1);

        for (unsigned i = 0; i < RANGE; i++) {
            m.painted[i] = SERVERS;
        }
        for (unsigned i = 0; i < count; i++) {
            add_one(&o, &m, &prng, i);
        }
        check(&o, &m);
        assert_true(overlay_copy(&o));
        memset(m.chunk, 0xee, sizeof(m.chunk)); /* Chunks change, and go. */
        check(&o, &m);
        overlay_free(&o);
    }
}

/* Bytes are those of their place in the chunk, whatever of it is seen. */
static void a_chunk_is_seen_on_both_sides_of_another(void **state)
{
    static const uint8_t old[] = "0123456789", young[] = "ab";
    struct overlay o = { .count = 0 };

    (void)state;
    assert_true(overlay_add(&o, 4, 6, young));
    assert_true(overlay_add(&o, 0, 10, old));
    assert_int_equal(o.count, 3);
    assert_memory_equal(o.pieces[0].bytes, "0123", 4);
    assert_memory_equal(o.pieces[1].bytes, "ab", 2);
    assert_memory_equal(o.pieces[2].bytes, "6789", 4);
}

static void too_many_pieces_are_refused(void **state)
{
    struct overlay o = { .count = 0 };

    (void)state;
    for (uint64_t i = 0; i < OVERLAY_PIECES_MAX; i++) {
        assert_true(overlay_add(&o, 2 * i, 2 * i + 1, NULL));
    }
    assert_true(overlay_add(&o, 4, 5, NULL)); /* It is there already. */
    assert_false(overlay_add(&o, 1000, 1001, NULL));
    assert_false(overlay_add(&o, 0, 4, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_youngest_chunk_is_seen),
        cmocka_unit_test(a_chunk_is_seen_on_both_sides_of_another),
        cmocka_unit_test(too_many_pieces_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
