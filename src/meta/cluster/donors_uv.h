/* Benefactors: what the core (donors.h) says is done here.
 *
 * Their connections are found by the number of the benefactor and its process together (donors_peer()), so that the
 * end of a connection that a process left behind is never taken for the end of its successor.
 *
 * The log has a line for each that comes or goes, but not when a power cut or a restart sends thousands at once:
 * DONORS_LINES_MAX in a second, and then one that says how many were left out. */
#ifndef MORSEL_META_CLUSTER_DONORS_UV_H
#define MORSEL_META_CLUSTER_DONORS_UV_H

#include "meta/meta_uv.h"

enum { DONORS_LINES_MAX = 10 };

/* The core, with the benefactors of the store. MORSEL_NOMEM, MORSEL_CORRUPT, MORSEL_VERSION. */
int donors_host_open(struct meta *meta, struct errmsg *err);

/* Feed the core and perform what it says. A request whose tag is in the event is answered, now or when the record is
 * on the disk. */
void donors_host_step(struct meta *meta, const struct donors_event *event);

/* By which number the connection of a benefactor's process is known. */
uint64_t donors_peer(donor_id id, uint64_t instance);

/* It is asked to report at once. */
void donors_host_ask(struct meta *meta, const struct donor *donor);

/* Somebody wants room for so many bytes there: it is asked if it may have more than is known (donors_recount()). True: its report is to be waited
 * for. */
bool donors_host_recount(struct meta *meta, const struct donor *donor, uint64_t bytes);

/* The log says that clients cannot reach it, or can again. */
void donors_host_log_door(struct meta *meta, const struct donor *donor, bool shut);

/* The report of a benefactor is taken: the answer names what it is to delete (service/handlers_held_uv.c). */
void donor_report_answer(struct meta *meta, struct rpc_request *request, donor_id id);

/* What is still to be moved off it. False: it neither leaves nor gives way. */
bool donor_left_fill(const struct donor *donor, Morsel__DonorLeft *m);

/* The last connection of `peer` ended. */
void donors_host_gone(struct meta *meta, uint64_t peer);

/* Is it the connection of one that is here? */
bool donors_host_values(const struct meta *meta, uint64_t peer);

/* Every PRESENCE_PULSE_MS: what was left out of the log. */
void donors_host_pulse(struct meta *meta, uint64_t now_ms);

#endif
