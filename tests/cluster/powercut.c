/* powercut DIR: shut the ext4 down on which DIR lies, as a power cut would: nothing that was not
 * synced is written back. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* linux/fs/ext4/ext4.h and xfs have the same call; no header for programs declares it. */
#define SHUTDOWN_CALL _IOR('X', 125, uint32_t)
enum { SHUTDOWN_WITHOUT_LOG_FLUSH = 2 };

int main(int argc, char **argv)
{
    uint32_t how = SHUTDOWN_WITHOUT_LOG_FLUSH;
    int fd = argc == 2 ? open(argv[1], O_RDONLY) : -1;

    if (fd < 0 || ioctl(fd, SHUTDOWN_CALL, &how) != 0) {
        perror("powercut");
        return 1;
    }
    return close(fd);
}
