/* The compiled core of data preparation: what its three files share.
 *
 * words.c      a chunk of text between blanks -> token ids (normalise, split, WordPiece, a cache of chunks)
 * text.c       lines -> sentences -> documents, all as ends into one array of tokens
 * examples.c   documents -> pairs -> rows of input, masked
 *
 * engine_python.py does the same in Python, and tests hold the two equal. Every array that can grow is a Numbers;
 * whatever allocates answers 0, or -1 when memory ran out, and leaves what it had as it was.
 */
#ifndef SLIPWAY_CORE_H
#define SLIPWAY_CORE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WORD_CHARACTERS 100 /* longer words are unknown: the tokenizers library's default */
#define MAX_ROW 512

typedef struct {
    uint32_t *at;
    size_t count, room;
} Numbers;

/* Open addressing; an empty slot has no hash. Keys lie in `bytes`, token ids follow each key. */
typedef struct {
    uint64_t hash;
    uint32_t offset;
    uint16_t key_length, ids;
} Slot;

typedef struct {
    Slot *slots;
    size_t mask, count;
    uint8_t *bytes;
    size_t used, room;
} Table;

typedef struct {
    uint8_t bytes[MAX_WORD_CHARACTERS * 4];
    size_t length, characters;
    uint32_t waiting[MAX_WORD_CHARACTERS + 1]; /* marks that are still to be put into canonical order */
    size_t waiting_count;
} Word;

/* What Python hands over once; the arrays stay its own. */
typedef struct {
    const uint32_t *entries, *items; /* unicode_table.py */
    const uint8_t *vocabulary;       /* all entries, one after the other */
    const uint32_t *starts;          /* where each begins; one more than there are entries */
    uint32_t vocabulary_size, unknown;
    const uint64_t *abbreviations; /* of up to eight bytes, with zeros behind them */
    uint32_t abbreviation_count, longest_sentence;
} Language;

/* A row to be: two stretches of tokens, and the number that its own randomness hangs on. */
typedef struct {
    uint32_t first, second, number;
    uint16_t first_length, second_length;
    uint8_t is_random;
} Pair;

typedef struct {
    Language language;
    Table pieces, chunks;
    Word word;
    Numbers tokens, sentences, documents; /* ends: of sentences in tokens, of documents in sentences */
    Pair *pairs;
    size_t pair_count, pair_room;
} Core;

typedef struct {
    uint64_t stream;      /* names this stretch of the corpus to the random numbers */
    uint64_t is_short;    /* thresholds of 64-bit random numbers */
    uint64_t is_masked, is_masked_or_kept;
    uint32_t row, predictions, duplicates;
    uint32_t vocabulary_size, pad, cls, sep, mask;
    const uint16_t *masked_of_length; /* how many are masked, for each number of tokens in a row */
} Settings;

typedef struct {
    int32_t *input_ids;
    int8_t *input_mask, *segment_ids;
    int32_t *masked_positions, *masked_ids;
    int8_t *is_random;
} Rows;

static inline int numbers_reserve(Numbers *numbers, size_t more) {
    size_t needed = numbers->count + more;
    if (needed <= numbers->room) return 0;
    size_t room = numbers->room ? numbers->room : 1024;
    while (room < needed) room *= 2;
    uint32_t *at = realloc(numbers->at, room * sizeof *at);
    if (!at) return -1;
    numbers->at = at;
    numbers->room = room;
    return 0;
}

static inline int numbers_push(Numbers *numbers, uint32_t value) {
    if (numbers_reserve(numbers, 1)) return -1;
    numbers->at[numbers->count++] = value;
    return 0;
}

static inline int is_blank(uint8_t byte) { return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n'; }

int words_open(Core *core);
void words_close(Core *core);
/* The hash of a chunk that will be appended soon, whose place in the memory is fetched meanwhile; 0 if it has none. */
uint64_t words_expect(const Core *core, const uint8_t *chunk, size_t length);
int words_append(Core *core, const uint8_t *chunk, size_t length, uint64_t hash);

#endif
