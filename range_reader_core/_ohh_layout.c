/* Lines in the one layout that rs-poker writes -> columns of the hands' tables, without an object for each of their parts.

   The layout to the letter: every key in its place, no blanks, no escapes, plain ASCII. A line that differs in any way is not read
   here but by its caller, who reads it slowly and forgivingly; so this only ever accepts. Words and cards are not known here
   either: `configure` is told them. Every byte is looked at only after it was found to lie before the end of its line. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define MAX_WORDS 32
#define MAX_WORD 24
#define NUM_CARDS 52
#define MAX_COUNT 255      /* of what is counted in a byte */
#define MAX_DIGITS 18      /* fit 64 bits */
#define MAX_NUMBER 40      /* characters of a number with decimals */
#define EXACT (1LL << 53)  /* whole numbers up to here are exact as doubles, and one division by a power of ten rounds right */

typedef struct {
    char text[MAX_WORD];
    size_t length;
    uint8_t code;
} Word;

typedef struct {
    Word words[MAX_WORDS];
    int count;
} Words;

static Words action_words, street_words;
static int8_t rank_of[256], suit_of[256];
static uint16_t combo_of_cards[NUM_CARDS][NUM_CARDS];
static double max_chips;
static int min_players, max_players, is_configured;

static const double POWERS[MAX_DIGITS + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8, 1e9,
                                              1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18};

/* Columns, in the order in which they are returned. */
enum {
    LINE_INDEX,
    IS_GAME,
    SITES,
    NETWORKS,
    GAME_NUMBERS,
    DEALER_SEATS,
    BLINDS,
    NUM_PLAYERS,
    NUM_ROUNDS,
    NUM_POTS,
    PLAYER_IDS,
    SEAT_NUMBERS,
    STACKS,
    IS_SITTING_OUT,
    STREETS,
    NUM_ACTIONS,
    NUM_CARDS_SHOWN,
    BOARD,
    ACTION_IDS,
    CODES,
    AMOUNTS,
    ACTION_COMBOS,
    POT_AMOUNTS,
    NUM_WINS,
    WIN_IDS,
    WIN_AMOUNTS,
    NUM_COLUMNS
};
#define NUM_TEXTS 3
#define FIRST_TEXT SITES

typedef struct {
    char *data;
    size_t size, capacity;
} Column;

typedef struct {
    const unsigned char *at, *end;  /* of the line */
    Column columns[NUM_COLUMNS];    /* those of texts are not used */
    int has_memory;
} Parser;

typedef struct {
    const char *text;
    Py_ssize_t length;
} Text;

static int add(Parser *parser, int column, const void *bytes, size_t size) {
    Column *into = &parser->columns[column];
    if (into->size + size > into->capacity) {
        size_t capacity = 2 * into->capacity + 4096;
        char *data = realloc(into->data, capacity);
        if (data == NULL) {
            parser->has_memory = 0;
            return 0;
        }
        into->data = data;
        into->capacity = capacity;
    }
    memcpy(into->data + into->size, bytes, size);
    into->size += size;
    return 1;
}

static int add_byte(Parser *parser, int column, uint8_t value) { return add(parser, column, &value, sizeof value); }

static int add_int(Parser *parser, int column, int64_t value) { return add(parser, column, &value, sizeof value); }

static int add_float(Parser *parser, int column, double value) { return add(parser, column, &value, sizeof value); }

static int is_next(const Parser *parser, const char *text, size_t length) {
    return (size_t)(parser->end - parser->at) >= length && memcmp(parser->at, text, length) == 0;
}

static int skip(Parser *parser, const char *text, size_t length) {
    if (!is_next(parser, text, length)) return 0;
    parser->at += length;
    return 1;
}

#define IS_NEXT(text) is_next(parser, text, sizeof(text) - 1)
#define SKIP(text) skip(parser, text, sizeof(text) - 1)

/* A text after its opening quote, through the closing one. */
static int read_text(Parser *parser, Text *found) {
    const unsigned char *begin = parser->at, *at = begin;
    while (at < parser->end && *at != '"') {
        if (*at < 0x20 || *at >= 0x7f || *at == '\\') return 0;
        at++;
    }
    if (at >= parser->end) return 0;
    found->text = (const char *)begin;
    found->length = at - begin;
    parser->at = at + 1;
    return 1;
}

static int is_text(const Text *text, const char *other) {
    return (size_t)text->length == strlen(other) && memcmp(text->text, other, text->length) == 0;
}

static int read_int(Parser *parser, int64_t *found) {
    const unsigned char *at = parser->at, *first;
    int64_t value = 0;
    int is_negative = at < parser->end && *at == '-';
    at += is_negative;
    for (first = at; at < parser->end && *at >= '0' && *at <= '9'; at++) {
        if (at - first >= MAX_DIGITS) return 0;
        value = 10 * value + (*at - '0');
    }
    if (at == first || (*first == '0' && at - first > 1)) return 0;
    *found = is_negative ? -value : value;
    parser->at = at;
    return 1;
}

/* Chips, 0 or more, rounded right. Clinger 1990: where digits and power of ten are exact as doubles, so is their quotient; sums of
   cents that were written with all their digits go the long way. */
static int read_chips(Parser *parser, double *found) {
    const unsigned char *at = parser->at, *first = at;
    int64_t digits = 0;
    int num_digits = 0, num_decimals = 0;
    for (; at < parser->end && *at >= '0' && *at <= '9'; at++, num_digits++)
        if (num_digits < MAX_DIGITS) digits = 10 * digits + (*at - '0');
    if (num_digits == 0 || (*first == '0' && num_digits > 1)) return 0;
    if (at < parser->end && *at == '.') {
        for (at++; at < parser->end && *at >= '0' && *at <= '9'; at++, num_digits++, num_decimals++)
            if (num_digits < MAX_DIGITS) digits = 10 * digits + (*at - '0');
        if (num_decimals == 0) return 0;
    }
    if (at < parser->end && (*at == 'e' || *at == 'E')) return 0;
    if (num_digits <= MAX_DIGITS && digits <= EXACT) {
        *found = (double)digits / POWERS[num_decimals];
    } else {
        char text[MAX_NUMBER + 1];
        size_t length = (size_t)(at - first);
        if (length > MAX_NUMBER) return 0;
        memcpy(text, first, length);
        text[length] = '\0';
        *found = PyOS_string_to_double(text, NULL, NULL);
        if (*found == -1.0 && PyErr_Occurred()) {
            PyErr_Clear();
            return 0;
        }
    }
    parser->at = at;
    return *found <= max_chips;
}

static int add_read_int(Parser *parser, int column) {
    int64_t value;
    return read_int(parser, &value) && add_int(parser, column, value);
}

static int add_read_chips(Parser *parser, int column) {
    double value;
    return read_chips(parser, &value) && add_float(parser, column, value);
}

/* A known word after its opening quote, through the closing one; its code, or -1. */
static int read_word(Parser *parser, const Words *words) {
    for (int index = 0; index < words->count; index++) {
        const Word *word = &words->words[index];
        if (is_next(parser, word->text, word->length)) {
            parser->at += word->length;
            return word->code;
        }
    }
    return -1;
}

/* A card in its quotes; its number, or -1. */
static int read_card(Parser *parser) {
    const unsigned char *at = parser->at;
    if (parser->end - at < 4 || at[0] != '"' || at[3] != '"') return -1;
    if (rank_of[at[1]] < 0 || suit_of[at[2]] < 0) return -1;
    parser->at += 4;
    return 4 * rank_of[at[1]] + suit_of[at[2]];
}

static int read_players(Parser *parser) {
    int count = 0;
    do {
        Text name;
        if (!(SKIP("{\"id\":") && add_read_int(parser, PLAYER_IDS) && SKIP(",\"seat\":") && add_read_int(parser, SEAT_NUMBERS) &&
              SKIP(",\"name\":\"") && read_text(parser, &name) && SKIP(",\"display\":\"") && read_text(parser, &name) &&
              SKIP(",\"starting_stack\":") && add_read_chips(parser, STACKS) && SKIP(",\"is_sitting_out\":")))
            return 0;
        int is_out = SKIP("true");
        if (!((is_out || SKIP("false")) && SKIP("}") && add_byte(parser, IS_SITTING_OUT, (uint8_t)is_out))) return 0;
        count++;
    } while (SKIP(","));
    return count >= min_players && count <= max_players && add_byte(parser, NUM_PLAYERS, (uint8_t)count);
}

static int read_action(Parser *parser) {
    int64_t number;
    if (!(SKIP("{\"action_number\":") && read_int(parser, &number) && SKIP(",\"player_id\":") &&
          add_read_int(parser, ACTION_IDS) && SKIP(",\"action\":\"")))
        return 0;
    int code = read_word(parser, &action_words);
    if (!(code >= 0 && add_byte(parser, CODES, (uint8_t)code) && SKIP(",\"amount\":") && add_read_chips(parser, AMOUNTS) &&
          SKIP(",\"is_allin\":") && (SKIP("false") || SKIP("true") || SKIP("null"))))
        return 0;
    uint16_t combo = 0;
    if (SKIP(",\"cards\":[")) {
        int first = read_card(parser);
        if (first < 0 || !SKIP(",")) return 0;
        int second = read_card(parser);
        if (second < 0 || !SKIP("]")) return 0;
        combo = combo_of_cards[first][second];
        if (combo == 0) return 0; /* a card twice */
    }
    return SKIP("}") && add(parser, ACTION_COMBOS, &combo, sizeof combo);
}

/* The cards of a round, which writers put before its actions or after them; how many, or -1. */
static int read_board(Parser *parser) {
    int count = 0;
    do {
        int card = read_card(parser);
        if (card < 0 || count == MAX_COUNT || !add_byte(parser, BOARD, (uint8_t)card)) return -1;
        count++;
    } while (SKIP(","));
    return SKIP("]") ? count : -1;
}

static int read_round(Parser *parser) {
    int64_t number, num_actions = 0;
    int num_cards = 0;
    if (!(SKIP("{\"id\":") && read_int(parser, &number) && SKIP(",\"street\":\""))) return 0;
    int street = read_word(parser, &street_words);
    if (street < 0 || !add_byte(parser, STREETS, (uint8_t)street)) return 0;
    int has_cards = SKIP(",\"cards\":[");
    if (has_cards) num_cards = read_board(parser);
    if (!SKIP(",\"actions\":[")) return 0;
    if (!IS_NEXT("]")) {
        do {
            if (!read_action(parser)) return 0;
            num_actions++;
        } while (SKIP(","));
    }
    if (!SKIP("]")) return 0;
    if (!has_cards && SKIP(",\"cards\":[")) num_cards = read_board(parser);
    return num_cards >= 0 && SKIP("}") && add_byte(parser, NUM_CARDS_SHOWN, (uint8_t)num_cards) &&
           add_int(parser, NUM_ACTIONS, num_actions);
}

static int read_rounds(Parser *parser) {
    int count = 0;
    do {
        if (count == MAX_COUNT || !read_round(parser)) return 0;
        count++;
    } while (SKIP(","));
    return add_byte(parser, NUM_ROUNDS, (uint8_t)count);
}

static int read_pot(Parser *parser) {
    int64_t number;
    int num_wins = 0;
    if (!(SKIP("{\"number\":") && read_int(parser, &number) && SKIP(",\"amount\":") && add_read_chips(parser, POT_AMOUNTS) &&
          SKIP(",\"player_wins\":[")))
        return 0;
    if (!IS_NEXT("]")) {
        do {
            if (num_wins == MAX_COUNT || !(SKIP("{\"player_id\":") && add_read_int(parser, WIN_IDS) && SKIP(",\"win_amount\":") &&
                                           add_read_chips(parser, WIN_AMOUNTS) && SKIP("}")))
                return 0;
            num_wins++;
        } while (SKIP(","));
    }
    return SKIP("]}") && add_byte(parser, NUM_WINS, (uint8_t)num_wins);
}

static int read_pots(Parser *parser) {
    int count = 0;
    if (!IS_NEXT("]")) {
        do {
            if (count == MAX_COUNT || !read_pot(parser)) return 0;
            count++;
        } while (SKIP(","));
    }
    return add_byte(parser, NUM_POTS, (uint8_t)count);
}

/* One line. Texts are found, not added, since they are objects. */
static int read_hand(Parser *parser, int64_t line, Text texts[NUM_TEXTS]) {
    Text text, game_type, bet_type;
    int64_t number;
    double cap;
    if (!(SKIP("{\"ohh\":{\"spec_version\":\"") && read_text(parser, &text) && SKIP(",\"site_name\":\"") &&
          read_text(parser, &texts[0]) && SKIP(",\"network_name\":\"") && read_text(parser, &texts[1]) &&
          SKIP(",\"internal_version\":\"") && read_text(parser, &text) && SKIP(",\"tournament\":")))
        return 0;
    int is_tournament = SKIP("true");
    if (!((is_tournament || SKIP("false")) && SKIP(",\"game_number\":\"") && read_text(parser, &texts[2]) &&
          SKIP(",\"start_date_utc\":") && (SKIP("null") || (SKIP("\"") && read_text(parser, &text))) &&
          SKIP(",\"table_name\":\"") && read_text(parser, &text) && SKIP(",\"game_type\":\"") && read_text(parser, &game_type) &&
          SKIP(",\"bet_limit\":{\"bet_type\":\"") && read_text(parser, &bet_type) && SKIP(",\"bet_cap\":") &&
          read_chips(parser, &cap) && SKIP("},\"table_size\":") && read_int(parser, &number) && SKIP(",\"currency\":\"") &&
          read_text(parser, &text) && SKIP(",\"dealer_seat\":") && add_read_int(parser, DEALER_SEATS) &&
          SKIP(",\"small_blind_amount\":") && add_read_chips(parser, BLINDS) && SKIP(",\"big_blind_amount\":") &&
          add_read_chips(parser, BLINDS) && SKIP(",\"ante_amount\":") && add_read_chips(parser, BLINDS) &&
          SKIP(",\"players\":[") && read_players(parser) && SKIP("],\"rounds\":[") && read_rounds(parser) &&
          SKIP("],\"pots\":[") && read_pots(parser) && SKIP("]}}")))
        return 0;
    int is_game =
        is_text(&game_type, "Holdem") && is_text(&bet_type, "NL") && cap == 0.0 && !is_tournament && texts[2].length > 0;
    (void)SKIP("\r");
    return parser->at == parser->end && add_byte(parser, IS_GAME, (uint8_t)is_game) && add_int(parser, LINE_INDEX, line);
}

/* Append a text to a list; the object before it, where that says the same. */
static int append_text(PyObject *list, const Text *text) {
    Py_ssize_t count = PyList_GET_SIZE(list);
    if (count > 0) {
        PyObject *before = PyList_GET_ITEM(list, count - 1);
        if (PyUnicode_GET_LENGTH(before) == text->length && memcmp(PyUnicode_1BYTE_DATA(before), text->text, text->length) == 0)
            return PyList_Append(list, before);
    }
    PyObject *object = PyUnicode_DecodeASCII(text->text, text->length, NULL);
    if (object == NULL) return -1;
    int status = PyList_Append(list, object);
    Py_DECREF(object);
    return status;
}

/* Read lines until one that does not fit. Returns its index, or `count`, or -1 with an error set. */
static Py_ssize_t read_lines(Parser *parser, PyObject *lists[NUM_TEXTS], const Py_buffer *text, const int64_t *starts,
                             const int64_t *ends, Py_ssize_t begin, Py_ssize_t count) {
    for (Py_ssize_t line = begin; line < count; line++) {
        size_t sizes[NUM_COLUMNS];
        Text texts[NUM_TEXTS];
        if (starts[line] < 0 || starts[line] > ends[line] || ends[line] > text->len) {
            PyErr_SetString(PyExc_ValueError, "take_apart: a line begins or ends outside of the text");
            return -1;
        }
        for (int column = 0; column < NUM_COLUMNS; column++) sizes[column] = parser->columns[column].size;
        parser->at = (const unsigned char *)text->buf + starts[line];
        parser->end = (const unsigned char *)text->buf + ends[line];
        if (!read_hand(parser, line, texts)) {
            if (!parser->has_memory) {
                PyErr_NoMemory();
                return -1;
            }
            for (int column = 0; column < NUM_COLUMNS; column++) parser->columns[column].size = sizes[column];
            return line;
        }
        for (int index = 0; index < NUM_TEXTS; index++)
            if (append_text(lists[index], &texts[index]) < 0) return -1;
    }
    return count;
}

/* The next line and the columns, as `take_apart` returns them. */
static PyObject *results_of(const Parser *parser, PyObject *lists[NUM_TEXTS], Py_ssize_t next) {
    PyObject *results = PyTuple_New(1 + NUM_COLUMNS);
    if (results == NULL) return NULL;
    PyTuple_SET_ITEM(results, 0, PyLong_FromSsize_t(next));
    for (int column = 0; column < NUM_COLUMNS; column++) {
        int is_list = column >= FIRST_TEXT && column < FIRST_TEXT + NUM_TEXTS;
        const Column *from = &parser->columns[column];
        PyObject *item = is_list ? Py_NewRef(lists[column - FIRST_TEXT])
                                 : PyBytes_FromStringAndSize(from->size ? from->data : "", (Py_ssize_t)from->size);
        PyTuple_SET_ITEM(results, 1 + column, item);
    }
    for (int index = 0; index <= NUM_COLUMNS; index++)
        if (PyTuple_GET_ITEM(results, index) == NULL) {
            Py_DECREF(results);
            return NULL;
        }
    return results;
}

static PyObject *take_apart(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Py_buffer text, starts, ends;
    Py_ssize_t begin;
    PyObject *results = NULL, *lists[NUM_TEXTS] = {NULL};
    Parser parser = {.has_memory = 1};
    if (!PyArg_ParseTuple(arguments, "y*y*y*n", &text, &starts, &ends, &begin)) return NULL;
    Py_ssize_t count = starts.len / (Py_ssize_t)sizeof(int64_t);
    if (!is_configured) {
        PyErr_SetString(PyExc_RuntimeError, "take_apart: configure was not called");
    } else if (starts.len != ends.len || begin < 0 || begin > count) {
        PyErr_SetString(PyExc_ValueError, "take_apart: starts and ends differ in number, or begin lies beyond them");
    } else {
        int has_lists = 1;
        for (int index = 0; index < NUM_TEXTS; index++) has_lists &= (lists[index] = PyList_New(0)) != NULL;
        if (has_lists) {
            Py_ssize_t next = read_lines(&parser, lists, &text, starts.buf, ends.buf, begin, count);
            if (next >= 0) results = results_of(&parser, lists, next);
        }
    }
    for (int index = 0; index < NUM_TEXTS; index++) Py_XDECREF(lists[index]);
    for (int column = 0; column < NUM_COLUMNS; column++) free(parser.columns[column].data);
    PyBuffer_Release(&text);
    PyBuffer_Release(&starts);
    PyBuffer_Release(&ends);
    return results;
}

/* Take words and their codes from a dict. */
static int take_words(PyObject *codes, Words *words) {
    PyObject *name, *code;
    Py_ssize_t place = 0;
    words->count = 0;
    while (PyDict_Next(codes, &place, &name, &code)) {
        Py_ssize_t length;
        const char *text = PyUnicode_AsUTF8AndSize(name, &length);
        long number = PyLong_AsLong(code);
        if (text == NULL || (number == -1 && PyErr_Occurred())) return 0;
        if (words->count == MAX_WORDS || length + 1 > MAX_WORD || number < 0 || number > MAX_COUNT) {
            PyErr_SetString(PyExc_ValueError, "configure: too many or too long words, or a code beyond a byte");
            return 0;
        }
        Word *word = &words->words[words->count++];
        memcpy(word->text, text, (size_t)length);
        word->text[length] = '"'; /* or one word would be found at the beginning of another */
        word->length = (size_t)length + 1;
        word->code = (uint8_t)number;
    }
    return 1;
}

static PyObject *configure(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *actions, *streets;
    const char *ranks, *suits;
    Py_ssize_t num_ranks, num_suits;
    Py_buffer combos;
    int least, most;
    double chips;
    is_configured = 0;
    if (!PyArg_ParseTuple(arguments, "O!O!s#s#y*iid", &PyDict_Type, &actions, &PyDict_Type, &streets, &ranks, &num_ranks, &suits,
                          &num_suits, &combos, &least, &most, &chips))
        return NULL;
    int is_sound = num_suits == 4 && num_ranks == 13 && combos.len == (Py_ssize_t)sizeof combo_of_cards && least >= 1 &&
                   most <= MAX_COUNT;
    if (is_sound) memcpy(combo_of_cards, combos.buf, sizeof combo_of_cards);
    PyBuffer_Release(&combos);
    if (!is_sound) {
        PyErr_SetString(PyExc_ValueError, "configure: expected 13 ranks, 4 suits and 52 x 52 combos of 16 bits");
        return NULL;
    }
    if (!take_words(actions, &action_words) || !take_words(streets, &street_words)) return NULL;
    memset(rank_of, -1, sizeof rank_of);
    memset(suit_of, -1, sizeof suit_of);
    for (int rank = 0; rank < 13; rank++) rank_of[(unsigned char)ranks[rank]] = (int8_t)rank;
    for (int suit = 0; suit < 4; suit++) suit_of[(unsigned char)suits[suit]] = (int8_t)suit;
    min_players = least;
    max_players = most;
    max_chips = chips;
    is_configured = 1;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"configure", configure, METH_VARARGS,
     "configure(action_codes, street_codes, ranks, suits, combo_of_cards, min_players, max_players, max_chips): tell the words."},
    {"take_apart", take_apart, METH_VARARGS,
     "take_apart(text, starts, ends, begin): return the index of the first line that does not fit, and the columns before it."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_ohh_layout", "Lines in rs-poker's layout, taken apart.", -1,
                                        methods,               NULL,          NULL,                                        NULL, NULL};

PyMODINIT_FUNC PyInit__ohh_layout(void) { return PyModule_Create(&definition); }
