/* mmap, and running programs. */
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = (5 << 20) + 777 };

static uint8_t *map(int fd, size_t size, int protection, int flags)
{
    void *address = mmap(NULL, size, protection, flags, fd, 0);

    TRUE(address != MAP_FAILED);
    return address;
}

static void shared_mapping_reads_the_file(void)
{
    static uint8_t bytes[SIZE];
    uint8_t *mapped;
    int fd;

    make_pattern_file("f", SIZE, 30);
    fill(bytes, SIZE, 30);
    fd = (int)OK(open("f", O_RDONLY));
    mapped = map(fd, SIZE, PROT_READ, MAP_SHARED);
    OK(close(fd)); /* The mapping holds the file by itself. */
    TRUE(memcmp(mapped, bytes, SIZE) == 0);
    for (int i = SIZE; i % 4096 != 0; i++) {
        EQ(mapped[i], 0); /* The rest of the last page. */
    }
}

static void stores_reach_the_file(void)
{
    static const char borders[8] = "borders!", unmapped[8] = "unmapped";
    uint8_t *mapped;
    int fd, other;

    make_pattern_file("f", SIZE, 31);
    fd = (int)OK(open("f", O_RDWR));
    other = (int)OK(open("f", O_RDWR));
    mapped = map(fd, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED);
    memcpy(mapped + (1 << 20) - 4, borders, sizeof(borders));
    OK(msync(mapped, SIZE, MS_SYNC));
    expect_bytes(other, "borders!", 8, (1 << 20) - 4);
    forget_pages(other);
    expect_bytes(other, "borders!", 8, (1 << 20) - 4);
    memcpy(mapped + (3 << 20), unmapped, sizeof(unmapped));
    OK(munmap(mapped, SIZE));
    OK(close(fd));
    expect_bytes(other, "unmapped", 8, 3 << 20);
    OK(fsync(other));
    forget_pages(other);
    expect_bytes(other, "unmapped", 8, 3 << 20);
    EQ(size_of("f"), SIZE);
}

static void writes_reach_the_mapping(void)
{
    uint8_t *mapped;
    int fd, other;

    make_pattern_file("f", SIZE, 32);
    fd = (int)OK(open("f", O_RDWR));
    other = (int)OK(open("f", O_RDWR));
    mapped = map(fd, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED);
    (void)*(volatile uint8_t *)(mapped + 5000);
    write_at(other, "written", 7, 5000);
    TRUE(memcmp(mapped + 5000, "written", 7) == 0);
    mapped[5000] = 'W';
    expect_bytes(other, "Written", 7, 5000);
}

static void private_stores_stay_private(void)
{
    uint8_t *mapped;
    int fd;

    make_file("f", "original");
    fd = (int)OK(open("f", O_RDONLY));
    mapped = map(fd, 8, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    memset(mapped, '!', 8);
    OK(munmap(mapped, 8));
    expect_text("f", "original");
}

static void permissions_of_mappings(void)
{
    int fd;

    make_file("f", "x");
    fd = (int)OK(open("f", O_RDONLY));
    TRUE(mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    EQ(errno, EACCES);
    fd = (int)OK(open("f", O_WRONLY));
    TRUE(mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
    EQ(errno, EACCES);
    OK(mkdir("d", 0755));
    fd = (int)OK(open("d", O_RDONLY));
    TRUE(mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
    EQ(errno, ENODEV);
}

static sigjmp_buf bus_error;

static void on_bus_error(int signal_number)
{
    (void)signal_number;
    siglongjmp(bus_error, 1);
}

static void behind_the_end_is_a_bus_error(void)
{
    uint8_t *mapped;
    int fd;

    make_pattern_file("f", 3 * 4096, 33);
    fd = (int)OK(open("f", O_RDWR));
    mapped = map(fd, (size_t)8 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED);
    TRUE(signal(SIGBUS, on_bus_error) != SIG_ERR);
    if (sigsetjmp(bus_error, 1) == 0) {
        (void)*(volatile uint8_t *)(mapped + (size_t)3 * 4096);
        TRUE(!"a read behind the end succeeded");
    }
    OK(ftruncate(fd, 4096)); /* Pages that were there go away. */
    if (sigsetjmp(bus_error, 1) == 0) {
        (void)*(volatile uint8_t *)(mapped + 4096);
        TRUE(!"a read of a page that was cut off succeeded");
    }
    OK(ftruncate(fd, 4 * 4096)); /* And come back as zeros. */
    EQ(mapped[4096], 0);
    mapped[3 * 4096] = 'x';
    expect_bytes(fd, "x", 1, 3 * 4096);
}

static void truncated_page_is_zero_again(void)
{
    uint8_t *mapped;
    int fd;

    make_pattern_file("f", 8192, 34);
    fd = (int)OK(open("f", O_RDWR));
    mapped = map(fd, 8192, PROT_READ | PROT_WRITE, MAP_SHARED);
    memset(mapped, 'm', 8192);
    OK(ftruncate(fd, 100));
    OK(ftruncate(fd, 8192));
    EQ(mapped[99], 'm');
    EQ(mapped[100], 0);
    expect_zeros(fd, 8092, 100);
}

static void mapping_outlives_unlink(void)
{
    uint8_t *mapped;
    int fd = (int)OK(open("f", O_RDWR | O_CREAT, 0644));

    OK(ftruncate(fd, 2 << 20));
    mapped = map(fd, 2 << 20, PROT_READ | PROT_WRITE, MAP_SHARED);
    OK(unlink("f"));
    memset(mapped, 'u', 2 << 20);
    OK(msync(mapped, 2 << 20, MS_SYNC));
    EQ(mapped[(2 << 20) - 1], 'u');
    expect_bytes(fd, "u", 1, 1234567);
}

static void shared_between_processes(void)
{
    uint8_t *mapped;
    pid_t child;
    int fd = (int)OK(open("f", O_RDWR | O_CREAT, 0644));

    OK(ftruncate(fd, 2 << 20));
    child = (pid_t)OK(fork());
    mapped = map(fd, 2 << 20, PROT_READ | PROT_WRITE, MAP_SHARED);
    if (child == 0) {
        memset(mapped, 'c', 2 << 20);
        _exit(0);
    }
    EQ(finish(child), 0);
    EQ(mapped[0], 'c');
    EQ(mapped[(2 << 20) - 1], 'c');
}

static void a_program_runs(void)
{
    static uint8_t bytes[1 << 16];
    int from = (int)OK(open("/bin/true", O_RDONLY)), to;
    ssize_t n;
    pid_t child;

    to = (int)OK(open("program", O_WRONLY | O_CREAT, 0755));
    while ((n = OK(read(from, bytes, sizeof(bytes)))) > 0) {
        EQ(write(to, bytes, (size_t)n), n);
    }
    FAILS(execl("program", "program", (char *)NULL), ETXTBSY); /* Still being written. */
    OK(close(to));
    child = (pid_t)OK(fork());
    if (child == 0) {
        (void)execl("./program", "program", (char *)NULL);
        _exit(9);
    }
    EQ(finish(child), 0);
    OK(chmod("program", 0644));
    FAILS(execl("./program", "program", (char *)NULL), EACCES);
}

static const struct suite_case map_cases[] = {
    SUITE_CASE(shared_mapping_reads_the_file), SUITE_CASE(stores_reach_the_file),
    SUITE_CASE(writes_reach_the_mapping),      SUITE_CASE(private_stores_stay_private),
    SUITE_CASE(permissions_of_mappings),       SUITE_CASE(behind_the_end_is_a_bus_error),
    SUITE_CASE(truncated_page_is_zero_again),  SUITE_CASE(mapping_outlives_unlink),
    SUITE_CASE(shared_between_processes),      SUITE_CASE(a_program_runs),
};
SUITE_GROUP(map);
