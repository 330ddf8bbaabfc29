// Compile with -ffp-contract=off, never with -ffast-math. A row has MODEL_features() values in the order of
// MODEL_feature_names(); NaN is a missing value. Rows stand one after another.
//   double MODEL_score(const double *row);
//   void MODEL_scores(const double *rows, size_t count, double *scores);

#include <math.h>
#include <stddef.h>

static const double bias[] = {COLUMN};
static const double weights[] = {COLUMN};
// Values that replace missing ones.
static const double fill[] = {COLUMN};

// Score of a document: higher is better within a query.
double MODEL_score(const double *row);
double MODEL_score(const double *row)
{
    double total = bias[0];
    for (int i = 0; i < WIDTH; i++) {
        total += weights[i] * (row[i] == row[i] ? row[i] : fill[i]);
    }
    return total;
}

void MODEL_scores(const double *rows, size_t count, double *scores);
void MODEL_scores(const double *rows, size_t count, double *scores)
{
    for (size_t i = 0; i < count; i++) {
        scores[i] = MODEL_score(rows + i * WIDTH);
    }
}

static const char *const names[] = {
NAMES
};

int MODEL_features(void);
int MODEL_features(void) { return WIDTH; }

const char *const *MODEL_feature_names(void);
const char *const *MODEL_feature_names(void) { return names; }
