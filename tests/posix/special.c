/* Fifos, sockets and device nodes. */
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

static void a_fifo_passes_bytes(void)
{
    char text[8] = "";
    pid_t child;
    int fd;

    OK(mkfifo("p", 0640));
    EQ(stat_of("p").st_mode, S_IFIFO | 0640);
    FAILS(mkfifo("p", 0640), EEXIST);
    FAILS(open("p", O_WRONLY | O_NONBLOCK), ENXIO);
    child = (pid_t)OK(fork());
    if (child == 0) {
        fd = (int)OK(open("p", O_WRONLY));
        EQ(write(fd, "through", 7), 7);
        _exit(0);
    }
    fd = (int)OK(open("p", O_RDONLY));
    EQ(read(fd, text, 7), 7);
    TRUE(strcmp(text, "through") == 0);
    EQ(read(fd, text, 7), 0);
    EQ(finish(child), 0);
    EQ(size_of("p"), 0);
    OK(rename("p", "q"));
    OK(link("q", "r"));
    EQ(stat_of("r").st_nlink, 2);
    OK(unlink("q"));
    FAILS(lseek(fd, 0, SEEK_SET), ESPIPE);
}

static void a_socket_connects(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "socket" };
    const struct sockaddr *any = (const struct sockaddr *)(const void *)&address;
    int server = (int)OK(socket(AF_UNIX, SOCK_STREAM, 0)), client, accepted;
    char byte = 0;

    OK(bind(server, any, sizeof(address)));
    TRUE(S_ISSOCK(stat_of("socket").st_mode));
    OK(listen(server, 1));
    client = (int)OK(socket(AF_UNIX, SOCK_STREAM, 0));
    OK(connect(client, any, sizeof(address)));
    accepted = (int)OK(accept(server, NULL, NULL));
    EQ(write(client, "x", 1), 1);
    EQ(read(accepted, &byte, 1), 1);
    EQ(byte, 'x');
    FAILS(open("socket", O_RDWR), ENXIO);
    FAILS(bind((int)OK(socket(AF_UNIX, SOCK_STREAM, 0)), any, sizeof(address)), EADDRINUSE);
    OK(unlink("socket"));
    FAILS(connect((int)OK(socket(AF_UNIX, SOCK_STREAM, 0)), any, sizeof(address)), ENOENT);
}

static void device_nodes(void)
{
    char byte = 'x';
    int fd;

    need_root();
    OK(mknod("null", S_IFCHR | 0666, makedev(1, 3)));
    EQ(stat_of("null").st_mode & S_IFMT, S_IFCHR);
    EQ(stat_of("null").st_rdev, makedev(1, 3));
    OK(mknod("large", S_IFCHR | 0600, makedev(4000, 1000000)));
    EQ(stat_of("large").st_rdev, makedev(4000, 1000000));
    OK(mknod("block", S_IFBLK | 0600, makedev(7, 99)));
    EQ(stat_of("block").st_mode & S_IFMT, S_IFBLK);
    EQ(stat_of("block").st_rdev, makedev(7, 99));
    fd = open("null", O_RDWR);
    if (fd < 0 && errno == EACCES) {
        return; /* Mounted without devices: the nodes are there, and that is all. */
    }
    EQ(write(OK(fd), "gone", 4), 4);
    EQ(read(fd, &byte, 1), 0);
}

static void device_nodes_are_for_root(void)
{
    need_root();
    become(ALICE, ALICE);
    FAILS(mknod("null", S_IFCHR | 0666, makedev(1, 3)), EPERM);
    OK(mknod("f", S_IFREG | 0600, 0));
    OK(mknod("p", S_IFIFO | 0600, 0));
    EQ(stat_of("p").st_uid, ALICE);
}

static void regular_files_from_mknod(void)
{
    OK(mknod("f", S_IFREG | 0644, 0));
    EQ(stat_of("f").st_mode, S_IFREG | 0644);
    FAILS(mknod("f", S_IFREG | 0644, 0), EEXIST);
    FAILS(mknod("d", S_IFDIR | 0755, 0), EPERM);
    make_file("f", "usable");
    expect_text("f", "usable");
}

static const struct suite_case special_cases[] = {
    SUITE_CASE(a_fifo_passes_bytes),
    SUITE_CASE(a_socket_connects),
    SUITE_CASE(device_nodes),
    SUITE_CASE(device_nodes_are_for_root),
    SUITE_CASE(regular_files_from_mknod),
};
SUITE_GROUP(special);
