/* The programs of MorselFS in the world: what their main.c does, without a process of their own. */
#ifndef MORSEL_TESTS_SIM_HOSTS_H
#define MORSEL_TESTS_SIM_HOSTS_H

#include "client/libmorsel_uv.h"
#include "common/rpc/messages.h"
#include "tests/sim/world/kernel.h"
#include "tests/sim/world/world.h"

struct host_meta;
struct host_iod;
struct host_donor;
struct host_admin;

enum { META_PORT = 7460, IOD_PORT = 7461, DONOR_PORT = 7462 };

/* For those who start a program: what it does from begin to begun it does as itself. Its pool has as many
 * `threads` as its main() asks for: with fewer, mounts may wait for themselves. */
struct world_process *host_process_begin(struct world_host *host, const char *name, uv_loop_t *loop,
                                         unsigned threads);
void host_process_begun(void);
void host_address_of(const struct world_host *host, unsigned port, char *text, size_t size);

/* Begin on the host, with the directory of that name, which may be there already. */
struct host_meta *host_meta_start(struct world_host *host, const char *name);
struct host_iod *host_iod_start(struct world_host *host, const char *name,
                                const struct world_host *manager);
struct host_donor *host_donor_start(struct world_host *host, const char *name,
                                    const struct world_host *manager);
void host_meta_kill(struct host_meta *meta);
void host_iod_kill(struct host_iod *iod);
void host_donor_kill(struct host_donor *donor);

/* SIGTERM: it ends by itself, in time; then its process is not alive any more. */
void host_meta_stop(struct host_meta *meta);
void host_iod_stop(struct host_iod *iod);
void host_donor_stop(struct host_donor *donor);

/* Loss of power; the hosts have it again at `back_ns`. Of one that was killed before, too. */
void host_meta_lose_power(struct host_meta *meta, uint64_t back_ns);
void host_iod_lose_power(struct host_iod *iod, uint64_t back_ns);
void host_donor_lose_power(struct host_donor *donor, uint64_t back_ns);

/* Batches of the manager's that a loss of power may take. */
uint32_t host_meta_unsynced(void);

/* So often its database had to fetch first what it was asked for. */
uint64_t host_meta_refused(void);

/* Few of its reads are fetched first from now on. Where each is, slowly, leases that were recalled for a change are given to
 * others before all that it reads is there, again and again; and a server of which much is to be deleted waits so long for the
 * answer to its heartbeat that the manager takes it for silent meanwhile. */
void host_meta_is_warm(void);

/* So often it had no room for a change. */
uint64_t host_meta_full(void);
struct world_process *host_meta_process(struct host_meta *meta);
struct world_process *host_iod_process(struct host_iod *iod);
struct world_process *host_donor_process(struct host_donor *donor);

/* The manager takes its word, and knows what lies there. */
bool host_donor_is_member(const struct host_donor *donor);

/* Is it in sync in all its groups, and serves? */
bool host_iod_is_well(struct host_iod *iod);

/* The `i`th of its groups; false: it has no so many. Its place in that group; 32: it is none of its. */
bool host_iod_group(const struct host_iod *iod, unsigned i, unsigned *group);
unsigned host_iod_place(const struct host_iod *iod, unsigned group);

/* How many servers hold a place of the group in the table that it has; 0: the group is not in it. */
unsigned host_iod_places(const struct host_iod *iod, unsigned group, uint64_t *version);

/* Servers that the manager counts as up. */
unsigned host_meta_servers_up(const struct host_meta *meta);

struct host_mount
{
    struct world_process *process;
    uv_loop_t loop;
    struct client *client;
    struct mount mount;
    struct fuse_session session;
    bool ready;
    bool refused; /* The manager could not be had; the program would have ended. */
    uv_timer_t drain;
};

/* `by_name`: the manager is given by its name. */
struct host_mount *host_mount_start(struct world_host *host, const char *name,
                                    const struct world_host *manager, bool by_name);
void host_mount_kill(struct host_mount *mount);

/* umount(8), where nothing is open: it ends by itself. */
void host_mount_unmount(struct host_mount *mount);
void host_mount_lose_power(struct host_mount *mount, uint64_t back_ns);

/* A program that asks as the `morsel` command does. */
struct host_admin *host_admin_start(struct world_host *host, const char *name);

/* Ask, and wait for the answer, in a fiber: a status of ours. `*reply` is to be freed as what
 * rpc_unpack() gives; NULL: there is none. */
int host_admin_call(struct host_admin *a, const char *address, enum message_type type,
                    const ProtobufCMessage *request, const ProtobufCMessageDescriptor *reply_type,
                    void **reply);

enum { HOST_IO_TIMEOUT_MS = 8000, HOST_LEASE_MS = 2000, HOST_SESSION_MS = 6000 };

#endif
