/* A chunk of text between blanks -> token ids: normalise, split at punctuation, WordPiece; chunks are remembered.
 *
 * The rules are those of the tokenizers library's BertNormalizer (lower case), BertPreTokenizer and WordPiece.
 */
#include "core.h"

#define LONGEST_KEPT 64            /* bytes of a chunk worth remembering */
#define MOST_CHUNKS (1u << 18)     /* then the memory starts anew: 8 MB of slots, */
#define MOST_BYTES (32u << 20)     /* and the keys and ids */
#define SEVERAL (1u << 31)
#define PAD (1u << 30)
#define PUNCTUATION (1u << 29)
#define CODE 0x1FFFFFu
#define CLASS(item) ((item) >> 21 & 0xFFu)
#define UNREADABLE 0xFFFDu

static uint64_t hash_step(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15ull;
    return hash ^ hash >> 29;
}

/* Up to eight bytes as one number, which tells them apart from as many others. */
static uint64_t few_bytes(const uint8_t *key, size_t length) {
    uint32_t first, last;
    if (length < 4) return key[0] | (uint64_t)key[length / 2] << 8 | (uint64_t)key[length - 1] << 16;
    memcpy(&first, key, 4);
    memcpy(&last, key + length - 4, 4);
    return first | (uint64_t)last << 32;
}

static uint64_t hash_bytes(const uint8_t *key, size_t length) {
    uint64_t word, hash = hash_step(0, length);
    for (; length > 8; key += 8, length -= 8) {
        memcpy(&word, key, 8);
        hash = hash_step(hash, word);
    }
    return hash_step(hash, few_bytes(key, length)) | 1; /* never the hash of an empty slot */
}

static int is_equal(const uint8_t *one, const uint8_t *other, size_t length) {
    uint64_t mine, theirs;
    for (; length > 8; one += 8, other += 8, length -= 8) {
        memcpy(&mine, one, 8);
        memcpy(&theirs, other, 8);
        if (mine != theirs) return 0;
    }
    return few_bytes(one, length) == few_bytes(other, length);
}

static int table_open(Table *table, size_t slots) {
    table->slots = calloc(slots, sizeof *table->slots);
    table->mask = slots - 1;
    table->count = table->used = 0;
    return table->slots ? 0 : -1;
}

static Slot *table_find(const Table *table, uint64_t hash, const uint8_t *key, size_t length) {
    size_t at = hash >> 20 & table->mask;
    for (;; at = (at + 1) & table->mask) {
        Slot *slot = &table->slots[at];
        if (!slot->hash) return slot;
        if (slot->hash == hash && slot->key_length == length && is_equal(table->bytes + slot->offset, key, length))
            return slot;
    }
}

static size_t ids_offset(const Slot *slot) { return slot->offset + ((slot->key_length + 3u) & ~(size_t)3); }

static int table_grow(Table *table) {
    Table larger = *table;
    if (table_open(&larger, (table->mask + 1) * 2)) return -1;
    for (size_t at = 0; at <= table->mask; at++) {
        Slot *slot = &table->slots[at];
        if (slot->hash) *table_find(&larger, slot->hash, table->bytes + slot->offset, slot->key_length) = *slot;
    }
    free(table->slots);
    table->slots = larger.slots;
    table->mask = larger.mask;
    return 0;
}

static int table_put(Table *table, uint64_t hash, const uint8_t *key, size_t length, const uint32_t *ids, size_t count) {
    if (table->count * 2 > table->mask && table_grow(table)) return -1;
    size_t needed = table->used + length + 3 + count * sizeof *ids;
    if (needed > table->room) {
        size_t room = needed * 2 + 65536;
        uint8_t *bytes = realloc(table->bytes, room);
        if (!bytes) return -1;
        table->bytes = bytes;
        table->room = room;
    }
    Slot *slot = table_find(table, hash, key, length);
    if (slot->hash) return 0; /* the first entry of a key stands */
    *slot = (Slot){hash, (uint32_t)table->used, (uint16_t)length, (uint16_t)count};
    memcpy(table->bytes + table->used, key, length);
    memcpy(table->bytes + ids_offset(slot), ids, count * sizeof *ids);
    table->used = (ids_offset(slot) + count * sizeof *ids + 3) & ~(size_t)3;
    table->count++;
    return 0;
}

/* Pieces inside a word are kept without their "##", and told from beginnings by where their hash starts. */
static uint64_t piece_hash(uint64_t hash, uint8_t byte) { return (hash ^ byte) * 0x100000001B3ull; }
static uint64_t piece_start(int is_inside) { return is_inside ? 0x84222325CBF29CE4ull : 0xCBF29CE484222325ull; }
static uint64_t piece_end(uint64_t hash) { return hash_step(hash, 0) | 1; }

int words_open(Core *core) {
    const Language *language = &core->language;
    if (table_open(&core->pieces, 1024) || table_open(&core->chunks, 4096)) return -1;
    for (uint32_t id = 0; id < language->vocabulary_size; id++) {
        const uint8_t *piece = language->vocabulary + language->starts[id];
        size_t length = language->starts[id + 1] - language->starts[id];
        int is_inside = length > 2 && piece[0] == '#' && piece[1] == '#';
        if (is_inside) piece += 2, length -= 2;
        if (!length || length > MAX_WORD_CHARACTERS * 4) continue; /* no word can hold it */
        uint64_t hash = piece_start(is_inside);
        for (size_t at = 0; at < length; at++) hash = piece_hash(hash, piece[at]);
        if (table_put(&core->pieces, piece_end(hash), piece, length, &id, 1)) return -1;
    }
    return 0;
}

void words_close(Core *core) {
    free(core->pieces.slots);
    free(core->pieces.bytes);
    free(core->chunks.slots);
    free(core->chunks.bytes);
}

/* The longest piece that `word` begins with: its id and length, or length 0. */
static size_t longest_piece(const Core *core, const uint8_t *word, size_t length, int is_inside, uint32_t *id) {
    uint64_t hash = piece_start(is_inside), hashes[MAX_WORD_CHARACTERS * 4];
    for (size_t at = 0; at < length; at++) hashes[at] = hash = piece_hash(hash, word[at]);
    for (; length; length--) {
        const Slot *slot = table_find(&core->pieces, piece_end(hashes[length - 1]), word, length);
        if (!slot->hash) continue;
        memcpy(id, core->pieces.bytes + ids_offset(slot), sizeof *id);
        return length;
    }
    return 0;
}

static int split_into_pieces(Core *core) {
    Word *word = &core->word;
    Numbers *tokens = &core->tokens;
    size_t before = tokens->count, at = 0;
    if (numbers_reserve(tokens, word->length + 1)) return -1;
    while (at < word->length && word->characters <= MAX_WORD_CHARACTERS) {
        uint32_t id;
        size_t found = longest_piece(core, word->bytes + at, word->length - at, at > 0, &id);
        if (!found) break;
        tokens->at[tokens->count++] = id;
        at += found;
    }
    if (at < word->length) {
        tokens->count = before; /* a word too long or with one unknown piece is unknown as a whole */
        tokens->at[tokens->count++] = core->language.unknown;
    }
    word->length = word->characters = 0;
    return 0;
}

static void write_character(Word *word, uint32_t code) {
    if (word->characters++ >= MAX_WORD_CHARACTERS) return; /* counted only: the word is unknown */
    uint8_t *to = word->bytes + word->length;
    if (code < 0x80) {
        to[0] = (uint8_t)code;
        word->length += 1;
    } else if (code < 0x800) {
        to[0] = (uint8_t)(0xC0 | code >> 6);
        to[1] = (uint8_t)(0x80 | (code & 63));
        word->length += 2;
    } else if (code < 0x10000) {
        to[0] = (uint8_t)(0xE0 | code >> 12);
        to[1] = (uint8_t)(0x80 | (code >> 6 & 63));
        to[2] = (uint8_t)(0x80 | (code & 63));
        word->length += 3;
    } else {
        to[0] = (uint8_t)(0xF0 | code >> 18);
        to[1] = (uint8_t)(0x80 | (code >> 12 & 63));
        to[2] = (uint8_t)(0x80 | (code >> 6 & 63));
        to[3] = (uint8_t)(0x80 | (code & 63));
        word->length += 4;
    }
}

/* Marks wait for the next character of class 0, ordered by class and otherwise as they came. */
static void let_wait(Word *word, uint32_t item) {
    if (word->waiting_count > MAX_WORD_CHARACTERS) return; /* the word is too long already, in whatever order */
    size_t at = word->waiting_count++;
    for (; at && CLASS(word->waiting[at - 1]) > CLASS(item); at--) word->waiting[at] = word->waiting[at - 1];
    word->waiting[at] = item;
}

static void write_waiting(Word *word) {
    for (size_t at = 0; at < word->waiting_count; at++) write_character(word, word->waiting[at] & CODE);
    word->waiting_count = 0;
}

static int take_item(Core *core, uint32_t item) {
    Word *word = &core->word;
    uint32_t code = item & CODE;
    if (CLASS(item)) {
        let_wait(word, item);
        return 0;
    }
    write_waiting(word);
    int stands_alone = (item & (PAD | PUNCTUATION)) != 0;
    if ((stands_alone || code == ' ') && word->characters && split_into_pieces(core)) return -1;
    if (code == ' ' || code == 0) return 0; /* 0: a dropped mark that held others apart */
    write_character(word, code);
    return stands_alone ? split_into_pieces(core) : 0;
}

/* One character of UTF-8; what is none costs one byte, so that no input can lead astray. */
static size_t read_character(const uint8_t *text, size_t length, uint32_t *code) {
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    uint8_t first = text[0];
    *code = first;
    if (first < 0x80) return 1;
    size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    *code = UNREADABLE;
    if (first < 0xC0 || first > 0xF7 || size > length) return 1;
    uint32_t value = first & (0x7Fu >> size);
    for (size_t at = 1; at < size; at++) {
        if ((text[at] & 0xC0) != 0x80) return 1;
        value = value << 6 | (text[at] & 0x3F);
    }
    if (value < least[size] || value > 0x10FFFF) return 1;
    *code = value;
    return size;
}

static int normalise_and_split(Core *core, const uint8_t *chunk, size_t length) {
    const Language *language = &core->language;
    core->word.length = core->word.characters = core->word.waiting_count = 0;
    for (size_t at = 0; at < length;) {
        uint32_t code;
        at += read_character(chunk + at, length - at, &code);
        uint32_t entry = language->entries[code];
        const uint32_t *items = entry & SEVERAL ? language->items + (entry & 0xFFFFF) : &entry;
        size_t count = entry & SEVERAL ? entry >> 20 & 15 : 1;
        for (size_t item = 0; item < count; item++)
            if (take_item(core, items[item])) return -1;
    }
    return take_item(core, ' ');
}

uint64_t words_expect(const Core *core, const uint8_t *chunk, size_t length) {
    if (!length || length > LONGEST_KEPT) return 0;
    uint64_t hash = hash_bytes(chunk, length);
    __builtin_prefetch(&core->chunks.slots[hash >> 20 & core->chunks.mask]);
    return hash;
}

int words_append(Core *core, const uint8_t *chunk, size_t length, uint64_t hash) {
    if (!hash) return normalise_and_split(core, chunk, length);
    Table *chunks = &core->chunks;
    const Slot *slot = table_find(chunks, hash, chunk, length);
    Numbers *tokens = &core->tokens;
    if (slot->hash) {
        if (numbers_reserve(tokens, slot->ids)) return -1;
        const uint8_t *ids = chunks->bytes + ids_offset(slot);
        for (size_t at = 0; at < slot->ids; at++, ids += sizeof(uint32_t))
            memcpy(tokens->at + tokens->count++, ids, sizeof(uint32_t));
        return 0;
    }
    size_t before = tokens->count;
    if (normalise_and_split(core, chunk, length)) return -1;
    if (chunks->count >= MOST_CHUNKS || chunks->used >= MOST_BYTES) {
        memset(chunks->slots, 0, (chunks->mask + 1) * sizeof *chunks->slots);
        chunks->count = chunks->used = 0;
    }
    return table_put(chunks, hash, chunk, length, tokens->at + before, tokens->count - before);
}
