/* Pages of a map (set_map.h). */
#include "client/datasets/set_map.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/base/table.h"

#include <stdlib.h>

struct set_map_page
{
    uint32_t number;
    struct list node; /* In map->used. */
    UT_hash_handle hh;
    struct set_entry entries[SET_MAP_PAGE];
};

void set_map_init(struct set_map *map, bool ours)
{
    map->pages = NULL;
    map->count = 0;
    map->ours = ours;
    list_init(&map->used);
}

static void page_free(struct set_map *map, struct set_map_page *page)
{
    list_remove(&page->node);
    HASH_DEL(map->pages, page);
    map->count--;
    free(page);
}

static void pages_free(struct set_map *map)
{
    struct set_map_page *page, *next;

    HASH_ITER(hh, map->pages, page, next)
    {
        page_free(map, page);
    }
}

void set_map_free(struct set_map *map)
{
    pages_free(map);
}

static struct set_map_page *page_of(struct set_map *map, uint32_t morsel)
{
    uint32_t number = morsel / SET_MAP_PAGE;
    struct set_map_page *page;

    HASH_FIND(hh, map->pages, &number, sizeof(number), page);
    if (page != NULL) {
        list_remove(&page->node);
        list_push_back(&map->used, &page->node);
    }
    return page;
}

bool set_map_get(struct set_map *map, uint32_t morsel, struct set_entry *entry)
{
    const struct set_map_page *page = page_of(map, morsel);

    *entry = (struct set_entry){ .stored = false };
    if (page != NULL) {
        *entry = page->entries[morsel % SET_MAP_PAGE];
    }
    return page != NULL || map->ours;
}

static struct set_map_page *page_new(struct set_map *map, uint32_t number)
{
    struct set_map_page *page = calloc(1, sizeof(*page));

    if (page == NULL) {
        return NULL;
    }
    if (map->count >= SET_MAP_PAGES_MAX) {
        map->ours = false;
        page_free(map, LIST_ENTRY(list_front(&map->used), struct set_map_page, node));
    }
    page->number = number;
    list_init(&page->node);
    HASH_ADD(hh, map->pages, number, sizeof(page->number), page);
    if (!TABLE_ADDED(page)) {
        free(page);
        return NULL;
    }
    list_push_back(&map->used, &page->node);
    map->count++;
    return page;
}

int set_map_begin(struct set_map *map, uint32_t morsel)
{
    struct set_map_page *page = page_of(map, morsel);

    if (page != NULL) {
        memset(page->entries, 0, sizeof(page->entries));
        return MORSEL_OK;
    }
    return page_new(map, morsel / SET_MAP_PAGE) != NULL ? MORSEL_OK : MORSEL_NOMEM;
}

void set_map_put(struct set_map *map, uint32_t morsel, const struct set_entry *entry)
{
    struct set_map_page *page = page_of(map, morsel);

    if (page == NULL && map->ours) {
        page = page_new(map, morsel / SET_MAP_PAGE);
        map->ours = map->ours && page != NULL; /* Without memory it has to be asked for. */
    }
    if (page != NULL) {
        page->entries[morsel % SET_MAP_PAGE] = *entry;
    }
}

void set_map_forget(struct set_map *map, uint32_t morsel)
{
    struct set_map_page *page = page_of(map, morsel);

    map->ours = false;
    if (page != NULL) {
        page_free(map, page);
    }
}

void set_map_forget_all(struct set_map *map)
{
    map->ours = false;
    pages_free(map);
}
