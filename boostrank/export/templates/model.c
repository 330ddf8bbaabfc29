// Compile with -ffp-contract=off, never with -ffast-math. A row has MODEL_features() values in the order of
// MODEL_feature_names(); NaN is a missing value. Rows stand one after another.
//   double MODEL_score(const double *row);
//   void MODEL_scores(const double *rows, size_t count, double *scores);

#include <math.h>
#include <stddef.h>

// The score of a model without trees, and 1 if numbers are rounded to float32, as the engine does.
static const double head[] = {COLUMN};
static const double thresholds[] = {COLUMN};
static const double leaves[] = {COLUMN};
static const int columns[] = {COLUMN};
// Children: a node, or -1 - leaf.
static const int lefts[] = {COLUMN};
static const int rights[] = {COLUMN};
// NAN_LEFT: missing values go left; ZERO_IS_MISSING: zeros are missing; CATEGORICAL: the threshold is a set of categories, which go left; LISTED_RIGHT: right.
static const int kinds[] = {COLUMN};
static const int roots[] = {COLUMN};
// Set i of categories: bit c % 32 of word c / 32 of words[ends[i]] to words[ends[i + 1]].
static const int words[] = {COLUMN};
static const int ends[] = {COLUMN};

static double number(double value) {
    if (head[1] == 0) {
        return value;
    }
    return (float) value;
}

static int goesLeft(double value, int node) {
    int kind = kinds[node];
    if ((kind & CATEGORICAL) != 0 && value == value) {
        int others = (kind & LISTED_RIGHT) != 0;
        int begin = ends[(int) thresholds[node]];
        int end = ends[(int) thresholds[node] + 1];
        if (value <= -1 || value >= 32 * (double) (end - begin) || (value < 0 && others)) {
            return others;
        }
        int category = (int) value;
        return (((words[begin + (category >> 5)] >> (category & 31)) & 1) != 0) != others;
    }
    if (value != value || ((kind & ZERO_IS_MISSING) != 0 && value >= -TINY && value <= TINY)) {
        return (kind & NAN_LEFT) != 0;
    }
    return value <= thresholds[node];
}

static double leaf(const double *row, int root) {
    int node = root;
    while (node >= 0) {
        if (goesLeft(number(row[columns[node]]), node)) {
            node = lefts[node];
        } else {
            node = rights[node];
        }
    }
    return leaves[-1 - node];
}

// Score of a document: higher is better within a query.
double MODEL_score(const double *row);
double MODEL_score(const double *row)
{
    double total = head[0];
    for (int tree = 0; tree < TREES; tree++) {
        total = number(total + leaf(row, roots[tree]));
    }
    return total;
}


void MODEL_scores(const double *rows, size_t count, double *scores);
void MODEL_scores(const double *rows, size_t count, double *scores)
{
    // Rows scored together, while a tree stays in the cache.
    for (size_t begin = 0; begin < count; begin += 64) {
        size_t end = count - begin < 64 ? count : begin + 64;
        for (size_t i = begin; i < end; i++) {
            scores[i] = head[0];
        }
        for (int tree = 0; tree < TREES; tree++) {
            for (size_t i = begin; i < end; i++) {
                scores[i] = number(scores[i] + leaf(rows + i * WIDTH, roots[tree]));
            }
        }
    }
}

static const char *const names[] = {
NAMES
};

int MODEL_features(void);
int MODEL_features(void) { return WIDTH; }

const char *const *MODEL_feature_names(void);
const char *const *MODEL_feature_names(void) { return names; }
