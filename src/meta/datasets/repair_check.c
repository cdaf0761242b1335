/* What must be so of repair, always. */
#include "meta/datasets/repair.h"

#include "common/base/check.h"

static void check_donor(const struct repair *r, const struct donor *donor)
{
    uint32_t sources = 0, targets = 0;

    for (uint32_t i = 0; i < REPAIR_FLIGHT_MAX; i++) {
        sources += r->tasks[i].order != 0 && r->tasks[i].source == donor->record.id;
        targets += r->tasks[i].order != 0 && r->tasks[i].target == donor->record.id;
    }
    CHECK(sources == donor->repair.sources && sources <= REPAIR_LEAVING_MAX);
    CHECK(targets == donor->repair.targets && targets <= REPAIR_DONOR_MAX);
}

void repair_check(const struct repair *r)
{
    uint32_t tasks = 0;

    for (uint32_t i = 0; i < REPAIR_FLIGHT_MAX; i++) {
        tasks += r->tasks[i].order != 0;
        CHECK(r->tasks[i].order == 0 ||
              (r->tasks[i].source != r->tasks[i].target && r->tasks[i].off != r->tasks[i].target));
    }
    CHECK(tasks == r->task_count);
    for (uint32_t i = 0; i < r->donors->count; i++) {
        check_donor(r, r->donors->items[i]);
    }
}
