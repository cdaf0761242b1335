/* The default number of copies. */
#include "meta/cluster/copies_rule.h"

#include "common/base/status.h"

#include <string.h>

int copies_rule_parse(const char *text, uint32_t *rule_out, struct errmsg *err)
{
    if (text[0] == '\0') {
        *rule_out = COPIES_RULE_OF_DATABASE;
        return 0;
    }
    if (strcmp(text, "auto") == 0) {
        *rule_out = COPIES_AUTO;
        return 0;
    }
    if (text[0] >= '1' && text[0] <= '0' + REPLICAS_MAX && text[1] == '\0') {
        *rule_out = (uint32_t)(text[0] - '0');
        return 0;
    }
    errmsg_set(err, "replicas \"%s\": give auto, 1, 2 or 3", text);
    return MORSEL_INVAL;
}

static_assert(REPLICAS_MAX == 3, "the words above name it");

uint32_t copies_rule_of(uint32_t set, bool auto_copies)
{
    return set != COPIES_RULE_OF_DATABASE ? set : auto_copies ? COPIES_AUTO : 1;
}

uint32_t copies_rule_wanted(uint32_t rule)
{
    return rule == COPIES_AUTO ? COPIES_AUTO_WANTED : rule;
}

uint32_t copies_rule_choose(uint32_t rule, const struct copies_around *around)
{
    uint32_t wanted = copies_rule_wanted(rule);

    if (wanted == 1 || around->told) {
        return wanted;
    }
    if (around->servers >= wanted && !around->waited) {
        return 0;
    }
    return rule == COPIES_AUTO ? 1 : wanted;
}
