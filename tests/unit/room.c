/* Room on the disks of members (src/iod/replica/room.h): nobody is refused for what is only in doubt, doubts
 * end, and what is full is called full. */
#include "iod/replica/room.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MIB = 1 << 20 };

static void what_nobody_has_told_of_has_room(void **state)
{
    struct room r = { 0 };

    (void)state;
    assert_int_equal(room_ask(&r, UINT64_MAX / 4, 3), ROOM_YES);
    room_tell(&r, 0, 7);
    assert_int_equal(room_ask(&r, UINT64_MAX / 4, 3), ROOM_YES);
}

static void a_full_disk_is_called_full(void **state)
{
    struct room r = { 0 };

    (void)state;
    room_tell(&r, ROOM_MARGIN_BYTES + MIB + 1, 1);
    assert_int_equal(room_ask(&r, MIB, 2), ROOM_YES);
    assert_int_equal(room_ask(&r, MIB + 1, 2), ROOM_NO);
}

/* What is written over takes no room: each look says the same. */
static void who_writes_over_what_is_there_is_never_refused(void **state)
{
    struct room r = { 0 };
    uint64_t written = 0;

    (void)state;
    for (uint64_t look = 1; look <= 1000; look++) {
        room_tell(&r, 100 * MIB, look);
        for (int i = 0; i < 100; i++) {
            enum room_verdict verdict = room_ask(&r, MIB, 2);

            assert_int_not_equal(verdict, ROOM_NO);
            if (verdict == ROOM_PERHAPS) {
                break; /* The next look tells. */
            }
            room_use(&r, MIB);
            written += MIB;
        }
    }
    assert_true(written > (uint64_t)10000 * MIB);
}

static void the_same_look_tells_nothing(void **state)
{
    struct room r = { 0 };

    (void)state;
    room_tell(&r, 40 * MIB, 5);
    room_use(&r, 20 * MIB);
    for (int i = 0; i < 3; i++) {
        room_tell(&r, 40 * MIB, 5);
        assert_int_equal(room_ask(&r, MIB, 2), ROOM_PERHAPS);
    }
    room_tell(&r, 20 * MIB, 6); /* May be from before the last of it was written. */
    assert_int_equal(room_ask(&r, MIB, 2), ROOM_PERHAPS);
    room_tell(&r, 20 * MIB, 7);
    assert_int_equal(room_ask(&r, MIB, 2), ROOM_YES);
}

/* Others go on with what is small: who asks for more is told at last. */
static void a_doubt_ends(void **state)
{
    struct room r = { 0 };
    uint64_t look = 1;

    (void)state;
    room_tell(&r, 12 * MIB, look);
    while (room_ask(&r, 3 * MIB, 2) == ROOM_PERHAPS || look == 1) {
        assert_int_equal(room_ask(&r, 4096, 2), ROOM_YES);
        room_use(&r, 600 << 10);
        room_tell(&r, 12 * MIB, ++look);
        assert_true(look <= ROOM_DOUBTS_MAX + 2);
    }
    assert_int_equal(room_ask(&r, 3 * MIB, 2), ROOM_NO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nobody_has_told_of_has_room),
        cmocka_unit_test(a_full_disk_is_called_full),
        cmocka_unit_test(who_writes_over_what_is_there_is_never_refused),
        cmocka_unit_test(the_same_look_tells_nothing),
        cmocka_unit_test(a_doubt_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
