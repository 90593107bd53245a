/* Text -> sentences -> documents. Also opens and closes a Core, and lets Python read its arrays.
 *
 * Lines are sentences or paragraphs; documents are set apart by blank lines, or by the <doc> tags of WikiExtractor.
 */
#include "core.h"

#define SENTENCE_PER_LINE 1
#define TAGGED 2

typedef struct {
    const uint8_t *at, *end;
} Span;

static int starts_with(Span span, const char *prefix) {
    size_t length = strlen(prefix);
    return (size_t)(span.end - span.at) >= length && !memcmp(span.at, prefix, length);
}

static int ends_with(Span span, const char *suffix) {
    size_t length = strlen(suffix);
    return (size_t)(span.end - span.at) >= length && !memcmp(span.end - length, suffix, length);
}

static int is_one_of(uint8_t byte, const char *set) { return byte && strchr(set, byte) != NULL; }
static int is_letter(uint8_t byte) { return (uint8_t)((byte | 32) - 'a') < 26; }

static Span without_openers(Span span) {
    for (;;) {
        if (span.at < span.end && is_one_of(*span.at, "\"'([{")) span.at += 1;
        else if (starts_with(span, "\xE2\x80\x9C") || starts_with(span, "\xE2\x80\x98")) span.at += 3;
        else return span;
    }
}

static Span without_closers(Span span) {
    for (;;) {
        if (span.at < span.end && is_one_of(span.end[-1], "\"')]}")) span.end -= 1;
        else if (ends_with(span, "\xE2\x80\x9D") || ends_with(span, "\xE2\x80\x99")) span.end -= 3;
        else return span;
    }
}

/* "J", "U.S", "e.g": single letters between full stops. */
static int is_initials(Span span) {
    for (const uint8_t *at = span.at; at < span.end; at += 2)
        if (!is_letter(*at) || (at + 1 < span.end && at[1] != '.')) return 0;
    return span.at < span.end && is_letter(span.end[-1]);
}

static int is_abbreviation(const Language *language, Span span) {
    size_t length = (size_t)(span.end - span.at);
    uint64_t word = 0, found = 0;
    if (length > sizeof word) return 0;
    memcpy(&word, span.at, length);
    for (uint32_t at = 0; at < language->abbreviation_count; at++) found |= language->abbreviations[at] == word;
    return found != 0;
}

static int ends_sentence(const Language *language, Span chunk) {
    if (is_letter(chunk.end[-1])) return 0;
    chunk = without_closers(chunk);
    if (ends_with(chunk, "!") || ends_with(chunk, "?") || ends_with(chunk, "\xE2\x80\xA6")) return 1;
    if (!ends_with(chunk, ".")) return 0;
    chunk.end -= 1;
    chunk = without_openers(chunk);
    return !is_initials(chunk) && !is_abbreviation(language, chunk);
}

static int begins_sentence(Span chunk) {
    if (chunk.at == chunk.end || (*chunk.at >= 'a' && *chunk.at <= 'z')) return 0;
    chunk = without_openers(chunk);
    if (chunk.at == chunk.end) return 0;
    return !(*chunk.at >= 'a' && *chunk.at <= 'z') && !is_one_of(*chunk.at, ",;:-)]}.!?");
}

static uint32_t last_end(const Numbers *ends) { return ends->count ? ends->at[ends->count - 1] : 0; }

/* What goes on for longer than any row is cut, so that text without sentences still makes examples. */
static int close_sentence(Core *core) {
    uint32_t end = (uint32_t)core->tokens.count, begin = last_end(&core->sentences);
    for (uint32_t longest = core->language.longest_sentence; end - begin > longest;)
        if (numbers_push(&core->sentences, begin += longest)) return -1;
    return end > begin ? numbers_push(&core->sentences, end) : 0;
}

static int close_document(Core *core) {
    uint32_t end = (uint32_t)core->sentences.count;
    return end > last_end(&core->documents) ? numbers_push(&core->documents, end) : 0;
}

static Span next_chunk(const uint8_t *at, const uint8_t *end) {
    while (at < end && is_blank(*at)) at++;
    Span chunk = {at, at};
    while (chunk.end < end && !is_blank(*chunk.end)) chunk.end++;
    return chunk;
}

static int add_line(Core *core, Span chunk, const uint8_t *end, int style) {
    uint64_t hash = words_expect(core, chunk.at, (size_t)(chunk.end - chunk.at));
    while (chunk.at < chunk.end) {
        Span next = next_chunk(chunk.end, end);
        uint64_t next_hash = words_expect(core, next.at, (size_t)(next.end - next.at));
        if (words_append(core, chunk.at, (size_t)(chunk.end - chunk.at), hash)) return -1;
        hash = next_hash;
        if (!(style & SENTENCE_PER_LINE) && begins_sentence(next) && ends_sentence(&core->language, chunk))
            if (close_sentence(core)) return -1;
        chunk = next;
    }
    return close_sentence(core);
}

int core_add(Core *core, const uint8_t *text, size_t length, int style) {
    const uint8_t *end = text + length;
    while (text < end) {
        const uint8_t *newline = memchr(text, '\n', (size_t)(end - text));
        Span line = {text, newline ? newline : end};
        Span first = next_chunk(line.at, line.end);
        int is_empty = first.at == first.end;
        int is_tag = style & TAGGED && (starts_with(line, "<doc ") || starts_with(line, "</doc>"));
        if (is_tag || (is_empty && !(style & TAGGED))) {
            if (close_document(core)) return -1;
        } else if (add_line(core, first, line.end, style)) {
            return -1;
        }
        text = newline ? newline + 1 : end;
    }
    return close_document(core);
}

void core_clear(Core *core) {
    core->tokens.count = core->sentences.count = core->documents.count = 0;
    core->pair_count = 0;
}

void core_close(Core *core) {
    words_close(core);
    free(core->tokens.at);
    free(core->sentences.at);
    free(core->documents.at);
    free(core->pairs);
    free(core);
}

Core *core_open(const Language *language) {
    Core *core = calloc(1, sizeof *core);
    if (!core) return NULL;
    core->language = *language;
    if (!words_open(core)) return core;
    core_close(core);
    return NULL;
}

/* 0: tokens, 1: ends of sentences, 2: ends of documents; valid until the next call. */
const uint32_t *core_numbers(const Core *core, int which, size_t *count) {
    const Numbers *all[] = {&core->tokens, &core->sentences, &core->documents};
    *count = all[which]->count;
    return all[which]->at;
}
