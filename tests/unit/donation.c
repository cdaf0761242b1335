/* How much is donated: what the owner has said against the disk. Each rule of the header is looked at over disks and histories drawn from a seed,
 * from the whole history each time, where the core keeps five numbers. */
#include "benefactor/donation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/prng.h"
#include "common/base/status.h"
#include "tests/lib/seed.h"

#include <stdlib.h>
#include <string.h>

#define GIB (UINT64_C(1) << 30)

enum { LOOKS = 400, HISTORIES = 300, CALM_MS = 1000 };

/* ---- What the owner writes ---- */

static void shares_are_read(void **state)
{
    static const struct
    {
        const char *text;
        bool percent;
        uint64_t value;
    } good[] = { { "0", false, 0 },          { "50G", false, 50 * GIB }, { "64KiB", false, 65536 },
                 { "1T", false, GIB << 10 }, { "0%", true, 0 },          { "30%", true, 30 },
                 { "100%", true, 100 } };
    static const char *const bad[] = { "",
                                       "%",
                                       "101%",
                                       "-1%",
                                       "30 %",
                                       "3.5%",
                                       "30%%",
                                       "all",
                                       "5X",
                                       "50g",
                                       " 5G",
                                       "5G ",
                                       "99999999999999999999%",
                                       "99999999999T" };
    struct donation_share share;
    struct errmsg err;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(donation_share_parse(good[i].text, &share, &err), 0);
        assert_int_equal(share.percent, good[i].percent);
        assert_true(share.value == good[i].value);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(donation_share_parse(bad[i], &share, &err), MORSEL_INVAL);
        assert_non_null(strstr(err.text, bad[i]));
        assert_non_null(strstr(err.text, "50G"));
        assert_non_null(strstr(err.text, "30%"));
    }
}

static void shares_are_of_the_disk(void **state)
{
    const struct donation_share third = { true, 33 }, all = { true, 100 }, five = { false, 5 };

    (void)state;
    assert_true(donation_share_of(&third, 1000) == 330);
    assert_true(donation_share_of(&third, 199) == 65); /* Rounded down. */
    assert_true(donation_share_of(&all, UINT64_MAX) == UINT64_MAX);
    assert_true(donation_share_of(&five, 3) == 5);
}

/* ---- Single looks ---- */

static struct donation giving(uint64_t bytes, unsigned keep_percent, uint64_t calm_ms)
{
    const struct donation_wish wish = { { false, bytes }, { true, keep_percent } };
    struct donation d;

    donation_init(&d, &wish, calm_ms);
    return d;
}

static bool look(struct donation *d, uint64_t free, uint64_t used, uint64_t now_ms)
{
    const struct donation_disk disk = { .total = 100 * GIB, .free = free, .used = used };
    bool told = donation_look(d, &disk, now_ms);

    donation_check(d);
    return told;
}

static void it_gives_way_before_the_disk_is_full(void **state)
{
    struct donation d = giving(50 * GIB, 20, CALM_MS);

    (void)state;
    assert_true(look(&d, 90 * GIB, 0, 0));
    assert_int_equal(d.state, DONATION_GIVES);
    assert_true(d.donated == 50 * GIB);
    assert_false(look(&d, 70 * GIB, 0, 1));
    assert_int_equal(d.state, DONATION_GIVES);
    assert_false(look(&d, 60 * GIB, 10 * GIB, 2)); /* 10 are ours: exactly what was said. */
    assert_false(d.donated != 50 * GIB || d.state != DONATION_GIVES);
    assert_true(look(&d, 25 * GIB, 10 * GIB, 3));
    assert_int_equal(d.state, DONATION_SHORT);
    assert_true(d.donated == 15 * GIB && d.excess == 0);
    assert_true(look(&d, 15 * GIB, 10 * GIB, 4)); /* Only 15 of the 20 to be kept are free. */
    assert_int_equal(d.state, DONATION_GIVES_WAY);
    assert_true(d.donated == 5 * GIB && d.excess == 5 * GIB);
    assert_true(look(&d, 0, 10 * GIB, 5));
    assert_true(d.donated == 0 && d.excess == 10 * GIB);
    assert_true(look(&d, 10 * GIB, 0, 6)); /* All of ours has gone: that was not enough. */
    assert_int_equal(d.state, DONATION_NOTHING);
}

static void it_grows_when_the_disk_has_been_calm(void **state)
{
    struct donation d = giving(64 * GIB, 20, CALM_MS); /* The band is 1 GiB. */

    (void)state;
    (void)look(&d, 30 * GIB, 0, 0);
    assert_true(d.donated == 10 * GIB);
    (void)look(&d, 50 * GIB, 0, 100);
    (void)look(&d, 45 * GIB, 0, 600);
    (void)look(&d, 60 * GIB, 0, 1099);
    assert_true(d.donated == 10 * GIB);
    (void)look(&d, 60 * GIB, 0, 1100); /* A second since it was greater first; 25 was the least. */
    assert_true(d.donated == 25 * GIB);
    (void)look(&d, 60 * GIB, 0, 1200);
    assert_true(look(&d, 25 * GIB, 0, 1300)); /* Down at once. */
    assert_true(d.donated == 5 * GIB);
    (void)look(&d, 26 * GIB - 1, 0, 1400); /* Less than the band: never. */
    (void)look(&d, 26 * GIB - 1, 0, 100000);
    assert_true(d.donated == 5 * GIB);
    (void)look(&d, 26 * GIB, 0, 100001);
    (void)look(&d, 26 * GIB, 0, 101001);
    assert_true(d.donated == 6 * GIB);
}

static void what_the_owner_says_holds_at_once(void **state)
{
    const struct donation_wish more = { { true, 60 }, { true, 20 } },
                               none = { { false, 0 }, { true, 20 } };
    struct donation d = giving(10 * GIB, 20, CALM_MS);

    (void)state;
    (void)look(&d, 100 * GIB, 0, 0);
    donation_change(&d, &more);
    assert_true(look(&d, 100 * GIB, 0, 1));
    assert_true(d.donated == 60 * GIB);
    donation_change(&d, &none);
    assert_true(look(&d, 90 * GIB, 10 * GIB, 2));
    assert_int_equal(d.state, DONATION_GIVES_WAY);
    assert_true(d.excess == 10 * GIB);
    (void)look(&d, 100 * GIB, 0, 3);
    assert_int_equal(d.state, DONATION_NOTHING);
}

static void it_says_so_in_words(void **state)
{
    struct donation d = giving(50 * GIB, 20, CALM_MS);
    char text[DONATION_TEXT_MAX];

    (void)state;
    (void)look(&d, 90 * GIB, 0, 0);
    donation_words(&d, text);
    assert_string_equal(text, "gives 50.0 GiB");
    (void)look(&d, 25 * GIB, 10 * GIB, 1);
    donation_words(&d, text);
    assert_string_equal(text,
                        "gives 15.0 GiB of 50.0 GiB: 20.0 GiB of the disk stay free for its owner");
    (void)look(&d, 15 * GIB, 10 * GIB, 2);
    donation_words(&d, text);
    assert_string_equal(
        text, "gives way: 5.0 GiB have to go, for 20.0 GiB of the disk stay free for its owner");
    (void)look(&d, 15 * GIB, 0, 3);
    donation_words(&d, text);
    assert_string_equal(
        text, "gives nothing: 20.0 GiB of the disk stay free for its owner, and there is no more");
}

/* ---- Histories ---- */

struct past
{
    struct donation_wish wish;
    struct donation_disk disks[LOOKS];
    uint64_t at_ms[LOOKS], donated[LOOKS];
};

static uint64_t room_of(const struct past *p, int i)
{
    const struct donation_disk *disk = &p->disks[i];
    uint64_t keep = donation_share_of(&p->wish.keep_free, disk->total);
    uint64_t ours = disk->free + disk->used;

    return ours > keep ? ours - keep : 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t said_of(const struct past *p, int i)
{
    return donation_share_of(&p->wish.donate, p->disks[i].total);
}

static uint64_t band_of(const struct past *p, int i)
{
    uint64_t band = said_of(p, i) / DONATION_BAND_PARTS;

    return band > 0 ? band : 1;
}

static struct donation_share draw_share(struct prng *prng, uint64_t total)
{
    struct donation_share share = { .percent = prng_below(prng, 2) == 0 };

    share.value = prng_below(prng, share.percent ? 101 : total + total / 4 + 1);
    return share;
}

/* The owner writes and deletes, a little mostly; morsels come as far as is donated, and go. */
static void draw_disk(struct prng *prng, struct past *p, int i, uint64_t total)
{
    struct donation_disk *disk = &p->disks[i];
    uint64_t most = prng_below(prng, 8) == 0 ? total : total / 100 + 1, owner = 0;

    disk->total = total;
    if (i > 0) {
        uint64_t step = prng_below(prng, most + 1);
        const struct donation_disk *before = &p->disks[i - 1];

        owner = total - least(total, before->free + before->used);
        owner = prng_below(prng, 2) == 0 ? least(total, owner + step) : owner - least(owner, step);
        disk->used =
            prng_below(prng, 2) == 0 ? before->used : prng_below(prng, p->donated[i - 1] + 1);
        disk->used = least(disk->used, total - owner);
    }
    disk->free = total - owner - disk->used;
    p->at_ms[i] = i == 0 ? 0 : p->at_ms[i - 1] + prng_below(prng, CALM_MS / 4);
}

/* Of all looks up to `i`: has the room been greater than donated[i - 1] by the band for CALM_MS, while the donation was the same? Then `to` is the
 * least of that. */
static bool has_been_calm(const struct past *p, int i, uint64_t *to)
{
    uint64_t was = least(p->donated[i - 1], least(room_of(p, i), said_of(p, i)));
    int k = i;

    *to = UINT64_MAX;
    for (; k >= 0 && room_of(p, k) >= was + band_of(p, k) && (k == i || p->donated[k] == was);
         k--) {
        *to = least(*to, room_of(p, k));
    }
    return k < i && p->at_ms[i] - p->at_ms[k + 1] >= CALM_MS;
}

static void judge(const struct past *p, int i, const struct donation *d)
{
    const struct donation_disk *disk = &p->disks[i];
    uint64_t said = said_of(p, i), room = room_of(p, i), to;
    uint64_t keep = donation_share_of(&p->wish.keep_free, disk->total);

    assert_true(d->donated <= said && d->donated <= room);
    if (d->donated > disk->used) { /* Filled, it leaves what is to be kept. */
        assert_true(disk->free - (d->donated - disk->used) >= keep);
    }
    assert_true(d->excess == (disk->used > d->donated ? disk->used - d->donated : 0));
    assert_int_equal(d->state == DONATION_GIVES_WAY, d->excess > 0);
    if (i == 0) {
        assert_true(d->donated == least(said, room));
    } else if (has_been_calm(p, i, &to)) {
        assert_true(d->donated == least(said, to));
    } else {
        assert_true(d->donated == least(p->donated[i - 1], least(said, room)));
    }
}

static void rules_hold_in_all_histories(void **state)
{
    struct past *p = calloc(1, sizeof(*p));
    struct prng prng;
    unsigned grown = 0, fallen = 0;

    (void)state;
    assert_non_null(p);
    prng_seed(&prng, test_seed_first());
    for (int h = 0; h < HISTORIES; h++) {
        uint64_t total = 1 + (prng_next(&prng) >> (1 + prng_below(&prng, 60)));
        struct donation d;

        p->wish.donate = draw_share(&prng, total);
        p->wish.keep_free = draw_share(&prng, total / 2);
        if (p->wish.keep_free.percent) {
            p->wish.keep_free.value /= 2;
        }
        donation_init(&d, &p->wish, CALM_MS);
        for (int i = 0; i < LOOKS; i++) {
            draw_disk(&prng, p, i, total);
            (void)donation_look(&d, &p->disks[i], p->at_ms[i]);
            donation_check(&d);
            judge(p, i, &d);
            p->donated[i] = d.donated;
            grown += i > 0 && d.donated > p->donated[i - 1];
            fallen += i > 0 && d.donated < p->donated[i - 1];
        }
    }
    assert_true(grown > HISTORIES && fallen > HISTORIES);
    free(p);
}

/* The same past, and then more free. */
static void more_free_gives_no_less(void **state)
{
    struct past *p = calloc(1, sizeof(*p));
    struct prng prng;

    (void)state;
    assert_non_null(p);
    prng_seed(&prng, test_seed_first() + 1);
    for (int h = 0; h < HISTORIES; h++) {
        uint64_t total = 1000 + prng_below(&prng, GIB);
        struct donation d, now;

        p->wish = (struct donation_wish){ draw_share(&prng, total), { true, 20 } };
        donation_init(&d, &p->wish, CALM_MS);
        for (int i = 0; i < LOOKS; i++) {
            struct donation_disk more;

            draw_disk(&prng, p, i, total);
            more = p->disks[i];
            more.free += prng_below(&prng, total - more.free - more.used + 1);
            now = d;
            (void)donation_look(&now, &more, p->at_ms[i]);
            (void)donation_look(&d, &p->disks[i], p->at_ms[i]);
            assert_true(now.donated >= d.donated);
            p->donated[i] = d.donated;
        }
    }
    free(p);
}

/* An owner's program writes and deletes: small files all the time, or large ones every few looks. The donation comes to rest below. */
static void it_does_not_flap(void **state)
{
    struct prng prng;

    (void)state;
    prng_seed(&prng, test_seed_first() + 2);
    for (int h = 0; h < HISTORIES; h++) {
        const uint64_t said = 64 * GIB, band = GIB;
        bool small = prng_below(&prng, 2) == 0;
        uint64_t middle = prng_below(&prng, 100 * GIB), lowest, now_ms = 0, before;
        struct donation d = giving(said, 20, CALM_MS);
        unsigned grown = 0;

        (void)look(&d, middle, 0, 0);
        before = lowest = d.donated;
        for (int i = 0; i < LOOKS; i++) {
            uint64_t width = small ? band - 1 : 40 * GIB;
            uint64_t written = small ? prng_below(&prng, width) : i % 4 == 3 ? width : 0;

            now_ms += small ? prng_below(&prng, 10 * CALM_MS) : CALM_MS / 4 - 1;
            (void)look(&d, middle - least(middle, written), 0, now_ms);
            grown += d.donated > before;
            lowest = least(lowest, d.donated);
            before = d.donated;
        }
        assert_int_equal(grown, 0);
        assert_true(before == lowest);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_read),
        cmocka_unit_test(shares_are_of_the_disk),
        cmocka_unit_test(it_gives_way_before_the_disk_is_full),
        cmocka_unit_test(it_grows_when_the_disk_has_been_calm),
        cmocka_unit_test(what_the_owner_says_holds_at_once),
        cmocka_unit_test(it_says_so_in_words),
        cmocka_unit_test(rules_hold_in_all_histories),
        cmocka_unit_test(more_free_gives_no_less),
        cmocka_unit_test(it_does_not_flap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
