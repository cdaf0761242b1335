/* What the kernel writes of the machine, and strange things that it might. */
#include "benefactor/machine_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/prng.h"
#include "tests/lib/seed.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void pressure_is_read(void **state)
{
    static const char *const bad[] = { "", "some", "full avg10=0.00 avg60=0.00 avg300=0.00 total=7",
                                       "some avg10=0.00 avg60=0.00 avg300=0.00 total=", "\n\n" };
    uint64_t us = 0;

    (void)state;
    assert_true(
        machine_parse_pressure("some avg10=36.13 avg60=33.19 avg300=20.02 total=10553527871\n"
                               "full avg10=0.00 avg60=0.00 avg300=0.00 total=938068202\n",
                               &us));
    assert_true(us == UINT64_C(10553527871));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(machine_parse_pressure(bad[i], &us));
    }
}

static void processors_are_read(void **state)
{
    struct governor_machine m = { .on_battery = false };

    (void)state;
    assert_false(machine_parse_cpu("", &m) || machine_parse_cpu("cpu 1 2 3", &m) ||
                 machine_parse_cpu("intr 5", &m) || m.cpu_known);
    assert_true(machine_parse_cpu("cpu  10 20 30 4000 500 1 2 3 9 9\ncpu0 1 1 1 1 1 1 1 1\n", &m));
    assert_true(m.cpu_known && m.cpu_busy == 66 && m.cpu_all == 4566);
}

#define DISKS                                                                                      \
    "   7       0 loop0 1 0 8 0 1 0 8 0 0 0 0\n"                                                   \
    " 254       0 vda 650836 614147 3000 506197 164 26 1000 2699562 0 2511312 7150017\n"           \
    " 254       1 vda1 5 0 7 0 6 0 9 0 0 0 0 0 0 0 0 0 0\n"

static void the_disk_is_found(void **state)
{
    struct governor_machine m = { .on_battery = false };

    (void)state;
    assert_false(machine_parse_disk(DISKS, 8, 0, &m) || machine_parse_disk("", 7, 0, &m));
    assert_false(machine_parse_disk("7 0 loop0 1 0 8\n7 0\n\n", 7, 0, &m) || m.disk_known);
    assert_true(machine_parse_disk(DISKS, 254, 0, &m));
    assert_true(m.disk_known && m.disk_operations == 651000 && m.disk_bytes == 4000 * 512);
    assert_true(machine_parse_disk(DISKS, 254, 1, &m) && m.disk_operations == 11);
}

static void keys_are_counted(void **state)
{
    struct governor_machine m = { .on_battery = false };

    (void)state;
    assert_false(machine_parse_input("   CPU0  CPU1\n  0:  5  6 IO-APIC 2-edge timer\n", &m));
    assert_true(machine_parse_input("      CPU0       CPU1\n"
                                    "  1:        120          3  IO-APIC    1-edge      i8042\n"
                                    "  8:       7000          0  IO-APIC    8-edge      rtc0\n"
                                    " 12:          7        400  IO-APIC   12-edge      i8042",
                                    &m));
    assert_true(m.input_known && m.input_events == 530);
}

static void batteries_of_mice_do_not_count(void **state)
{
    (void)state;
    assert_true(machine_is_emptied("Battery\n", "", "Discharging\n"));
    assert_true(machine_is_emptied("Battery\n", "System\n", "Discharging\n"));
    assert_false(machine_is_emptied("Battery\n", "Device\n", "Discharging\n"));
    assert_false(machine_is_emptied("Battery\n", "", "Charging\n"));
    assert_false(machine_is_emptied("Mains\n", "", "Discharging\n"));
    assert_false(machine_is_emptied("", "", ""));
}

/* Bytes changed, cut and doubled: nothing is read beyond the end (sanitizers see it). */
static void strange_texts_are_passed_over(void **state)
{
    static const char *const texts[] = {
        DISKS, "some avg10=36.13 avg60=33.19 avg300=20.02 total=10553527871\n",
        "cpu  10 20 30 4000 500 1 2 3 9 9\n", "  1:  120  3  IO-APIC    1-edge      i8042\n"
    };
    struct prng prng;

    (void)state;
    prng_seed(&prng, test_seed_first());
    for (unsigned i = 0; i < 20000; i++) {
        const char *text = texts[prng_below(&prng, 4)];
        char *changed = strdup(text);
        struct governor_machine m = { .on_battery = false };

        assert_non_null(changed);
        for (uint64_t n = prng_below(&prng, 4); n > 0; n--) {
            changed[prng_below(&prng, strlen(text))] = "0:9 \n%-\0ix\377"[prng_below(&prng, 12)];
        }
        (void)machine_parse_disk(changed, 254, 0, &m);
        (void)machine_parse_cpu(changed, &m);
        (void)machine_parse_input(changed, &m);
        (void)machine_parse_pressure(changed, &m.io_us);
        free(changed);
    }
}

static void this_machine_is_looked_at(void **state)
{
    struct governor_machine m, again;
    int fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    (void)state;
    machine_look(fd, &m);
    machine_look(fd, &again);
    assert_true(m.cpu_known && m.cpu_all > 0 && again.cpu_all >= m.cpu_all);
    assert_int_equal(m.pressure_known, access("/proc/pressure/io", R_OK) == 0);
    assert_true(again.io_us >= m.io_us && again.disk_bytes >= m.disk_bytes);
    machine_look(-1, &m); /* Of no disk at all. */
    assert_true(m.cpu_known && !m.disk_known);
    close(fd);
}

static void it_stands_back(void **state)
{
    int status = -1;
    pid_t child = fork();

    (void)state;
    if (child == 0) {
        machine_stand_back();
        _exit(getpriority(PRIO_PROCESS, 0) == 19 && sched_getscheduler(0) == SCHED_IDLE ? 0 : 1);
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pressure_is_read),
        cmocka_unit_test(processors_are_read),
        cmocka_unit_test(the_disk_is_found),
        cmocka_unit_test(keys_are_counted),
        cmocka_unit_test(batteries_of_mice_do_not_count),
        cmocka_unit_test(strange_texts_are_passed_over),
        cmocka_unit_test(this_machine_is_looked_at),
        cmocka_unit_test(it_stands_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
