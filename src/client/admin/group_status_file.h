/* Groups of servers that hold the same objects, as `morsel status` shows them. */
#ifndef MORSEL_CLIENT_ADMIN_GROUP_STATUS_FILE_H
#define MORSEL_CLIENT_ADMIN_GROUP_STATUS_FILE_H

#include "client/admin/print_file.h"
#include "meta.pb-c.h"

/* Told, and all its copies take part. */
bool group_is_well(const Morsel__GroupStatus *group);

/* How many of them are not well. */
size_t groups_unwell(const Morsel__StatusReply *status);

/* [{"number", "servers", "told", "well", "copies": [those that are not well]}] */
json_t *group_status_json(const Morsel__StatusReply *status);

/* One line for all, and one for each that is not well. Nothing where there are none. */
void group_status_print(const Morsel__StatusReply *status);

/* Of one group: its line, and what is done about it. */
void group_status_print_one(const Morsel__GroupStatus *group);
json_t *group_status_json_one(const Morsel__GroupStatus *group);

/* What is at risk (--show-loss): of each group that is not well since when, who is missing, and what would be lost; and
 * servers that are away with objects that only they have. */
void group_status_print_loss(const Morsel__StatusReply *status);

/* Has the server nothing left that anybody needs? It was to leave. */
bool leaver_has_left(const Morsel__Member *member);

/* How far it is with leaving, in a few words; returns `text`. */
enum { LEAVER_TEXT_MAX = 96 };
const char *leaver_words(const Morsel__Member *member, char text[LEAVER_TEXT_MAX]);

#endif
