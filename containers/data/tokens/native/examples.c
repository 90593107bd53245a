/* Documents -> pairs of stretches of tokens -> masked rows, as BERT's create_pretraining_data describes it.
 *
 * Random numbers are splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014), one
 * stream for each duplicate of a document and for each row, so that who works on what changes nothing.
 */
#include "core.h"

enum { OF_DOCUMENT = 1, OF_ORDER = 2, OF_ROW = 3 };

#define GOLDEN 0x9E3779B97F4A7C15ull

static uint64_t mix(uint64_t value) {
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9ull;
    value = (value ^ value >> 27) * 0x94D049BB133111EBull;
    return value ^ value >> 31;
}

static uint64_t draw(uint64_t *state) { return mix(*state += GOLDEN); }

static uint64_t stream(uint64_t seed, uint64_t use, uint64_t number, uint64_t duplicate) {
    uint64_t state = mix((seed ^ use) + GOLDEN);
    state = mix((state ^ number) + GOLDEN);
    return mix((state ^ duplicate) + GOLDEN);
}

/* Uniform below `limit`; off by less than limit / 2^64. */
static uint32_t below(uint64_t *state, uint32_t limit) {
    return (uint32_t)((unsigned __int128)draw(state) * limit >> 64);
}

typedef struct {
    uint32_t document, first, end; /* sentences first..end, of this document */
    uint32_t target;               /* tokens wanted in both stretches together */
} Walk;

static uint32_t sentence_begin(const Core *core, uint32_t sentence) {
    return sentence ? core->sentences.at[sentence - 1] : 0;
}

static uint32_t document_begin(const Core *core, uint32_t document) {
    return document ? core->documents.at[document - 1] : 0;
}

/* Half the tokens, on average, go from the front: one bit each. */
static uint32_t from_front(uint64_t *state, uint32_t count) {
    uint32_t front = 0;
    for (; count; count -= count < 64 ? count : 64) {
        uint64_t bits = draw(state);
        if (count < 64) bits &= (1ull << count) - 1;
        front += (uint32_t)__builtin_popcountll(bits);
    }
    return front;
}

/* The longer stretch loses tokens until both fit; when they are equal the second does. */
static void truncate_pair(uint64_t *state, uint32_t most, uint32_t *starts, uint32_t *lengths) {
    uint32_t excess = lengths[0] + lengths[1] > most ? lengths[0] + lengths[1] - most : 0;
    int longer = lengths[0] > lengths[1] ? 0 : 1;
    uint32_t ahead = lengths[longer] - lengths[!longer];
    uint32_t alone = excess < ahead ? excess : ahead, both = excess - alone;
    uint32_t lost[2];
    lost[longer] = alone + both / 2;
    lost[!longer] = both / 2;
    lost[1] += both % 2;
    for (int side = 0; side < 2; side++) {
        starts[side] += from_front(state, lost[side]);
        lengths[side] -= lost[side];
    }
}

static int push_pair(Core *core, const uint32_t *starts, const uint32_t *lengths, int is_random) {
    if (core->pair_count == core->pair_room) {
        size_t room = core->pair_room ? core->pair_room * 2 : 1024;
        Pair *pairs = realloc(core->pairs, room * sizeof *pairs);
        if (!pairs) return -1;
        core->pairs = pairs;
        core->pair_room = room;
    }
    core->pairs[core->pair_count] = (Pair){starts[0], starts[1], (uint32_t)core->pair_count,
                                           (uint16_t)lengths[0], (uint16_t)lengths[1], (uint8_t)is_random};
    core->pair_count++;
    return 0;
}

/* Sentences of another document, from a random one on, until `wanted` tokens are there. */
static void random_stretch(const Core *core, uint64_t *state, uint32_t document, int64_t wanted, uint32_t *begin,
                           uint32_t *length) {
    uint32_t other = below(state, (uint32_t)core->documents.count - 1);
    other += other >= document;
    uint32_t first = document_begin(core, other), end = core->documents.at[other];
    uint32_t sentence = first + below(state, end - first);
    *begin = sentence_begin(core, sentence);
    do *length = core->sentences.at[sentence] - *begin;
    while (++sentence < end && *length < wanted);
}

/* One pair out of the sentences gathered by `walk`; answers how many of them it used, or -1. */
static int64_t make_pair(Core *core, const Settings *settings, uint64_t *state, const Walk *walk) {
    uint32_t gathered = walk->end - walk->first;
    uint32_t used = gathered < 2 ? 1 : 1 + below(state, gathered - 1);
    uint32_t starts[2], lengths[2];
    starts[0] = sentence_begin(core, walk->first);
    lengths[0] = core->sentences.at[walk->first + used - 1] - starts[0];
    int is_random = gathered == 1 || draw(state) >> 63;
    if (is_random) {
        int64_t wanted = (int64_t)walk->target - lengths[0];
        random_stretch(core, state, walk->document, wanted, &starts[1], &lengths[1]);
    } else {
        starts[1] = sentence_begin(core, walk->first + used);
        lengths[1] = core->sentences.at[walk->end - 1] - starts[1];
        used = gathered;
    }
    truncate_pair(state, settings->row - 3, starts, lengths);
    return push_pair(core, starts, lengths, is_random) ? -1 : (int64_t)used;
}

static int pair_document(Core *core, const Settings *settings, uint32_t document, uint32_t duplicate) {
    uint64_t state = stream(settings->stream, OF_DOCUMENT, document, duplicate);
    uint32_t most = settings->row - 3, end = core->documents.at[document];
    Walk walk = {document, document_begin(core, document), 0, most};
    if (draw(&state) < settings->is_short) walk.target = 2 + below(&state, most - 1);
    for (walk.end = walk.first; walk.end < end;) {
        uint32_t length = core->sentences.at[walk.end++] - sentence_begin(core, walk.first);
        if (walk.end < end && length < walk.target) continue;
        int64_t used = make_pair(core, settings, &state, &walk);
        if (used < 0) return -1;
        walk.end = walk.first += (uint32_t)used;
    }
    return 0;
}

/* With nobody else to draw random sentences from, a document's other half stands in. */
static int halve_the_only_document(Core *core) {
    if (core->documents.count != 1 || core->documents.at[0] < 2) return 0;
    uint32_t end = core->documents.at[0];
    core->documents.at[0] = end / 2;
    return numbers_push(&core->documents, end);
}

/* All pairs of all duplicates, in random order; answers how many, or -1. */
int64_t core_pair(Core *core, const Settings *settings) {
    if (halve_the_only_document(core)) return -1;
    core->pair_count = 0;
    if (core->documents.count < 2) return 0;
    for (uint32_t duplicate = 0; duplicate < settings->duplicates; duplicate++)
        for (uint32_t document = 0; document < core->documents.count; document++)
            if (pair_document(core, settings, document, duplicate)) return -1;
    uint64_t state = stream(settings->stream, OF_ORDER, 0, 0);
    for (size_t left = core->pair_count; left > 1; left--) {
        size_t other = below(&state, (uint32_t)left);
        Pair moved = core->pairs[left - 1];
        core->pairs[left - 1] = core->pairs[other];
        core->pairs[other] = moved;
    }
    return (int64_t)core->pair_count;
}

/* `count` of `candidates`, each set alike (Floyd: Communications of the ACM 30, 1987, "A sample of brilliance"). */
static void choose(uint64_t *state, uint32_t candidates, uint32_t count, uint64_t *chosen) {
    memset(chosen, 0, MAX_ROW / 8);
    for (uint32_t last = candidates - count; last < candidates; last++) {
        uint32_t at = below(state, last + 1);
        if (chosen[at / 64] >> at % 64 & 1) at = last;
        chosen[at / 64] |= 1ull << at % 64;
    }
}

static void mask_row(const Pair *pair, const Settings *settings, const Rows *rows) {
    uint64_t state = stream(settings->stream, OF_ROW, pair->number, 0), chosen[MAX_ROW / 64];
    uint32_t candidates = pair->first_length + pair->second_length, count = settings->masked_of_length[candidates + 3];
    int32_t *position = rows->masked_positions, *id = rows->masked_ids;
    choose(&state, candidates, count, chosen);
    for (uint32_t word = 0; word < MAX_ROW / 64; word++)
        for (uint64_t bits = chosen[word]; bits; bits &= bits - 1) {
            uint32_t candidate = word * 64 + (uint32_t)__builtin_ctzll(bits);
            int32_t at = (int32_t)(candidate + 1 + (candidate >= pair->first_length));
            *position++ = at;
            *id++ = rows->input_ids[at];
            uint64_t fate = draw(&state);
            if (fate < settings->is_masked) rows->input_ids[at] = (int32_t)settings->mask;
            else if (fate >= settings->is_masked_or_kept)
                rows->input_ids[at] = (int32_t)below(&state, settings->vocabulary_size);
        }
    for (; count < settings->predictions; count++) *position++ = *id++ = 0;
}

static void fill_row(const Core *core, const Pair *pair, const Settings *settings, const Rows *rows) {
    uint32_t first = pair->first_length, second = pair->second_length, used = first + second + 3;
    int32_t *ids = rows->input_ids;
    ids[0] = (int32_t)settings->cls;
    memcpy(ids + 1, core->tokens.at + pair->first, first * sizeof *ids);
    ids[first + 1] = (int32_t)settings->sep;
    memcpy(ids + first + 2, core->tokens.at + pair->second, second * sizeof *ids);
    ids[used - 1] = (int32_t)settings->sep;
    for (uint32_t at = used; at < settings->row; at++) ids[at] = (int32_t)settings->pad;
    memset(rows->input_mask, 1, used);
    memset(rows->input_mask + used, 0, settings->row - used);
    memset(rows->segment_ids, 0, settings->row);
    memset(rows->segment_ids + first + 2, 1, second + 1);
    *rows->is_random = (int8_t)pair->is_random;
    mask_row(pair, settings, rows);
}

void core_fill(const Core *core, const Settings *settings, size_t start, size_t count, const Rows *rows, size_t at) {
    for (size_t number = 0; number < count; number++) {
        size_t row = at + number;
        Rows one = {rows->input_ids + row * settings->row,
                    rows->input_mask + row * settings->row,
                    rows->segment_ids + row * settings->row,
                    rows->masked_positions + row * settings->predictions,
                    rows->masked_ids + row * settings->predictions,
                    rows->is_random + row};
        fill_row(core, &core->pairs[start + number], settings, &one);
    }
}
