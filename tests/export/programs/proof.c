#include <stdio.h>
#include <stdlib.h>
void MODEL_scores(const double *rows, size_t count, double *scores);
int MODEL_features(void);
int main(void)
{
    size_t size = 0, count, i;
    double *rows = NULL, *scores, value;
    while (scanf("%lf", &value) == 1) {
        if (size % 65536 == 0)
            rows = realloc(rows, (size + 65536) * sizeof value);
        rows[size++] = value;
    }
    count = size / (size_t)MODEL_features();
    scores = malloc((count + 1) * sizeof value);
    MODEL_scores(rows, count, scores);
    for (i = 0; i < count; i++)
        printf("%.17g\n", scores[i]);
    return 0;
}
