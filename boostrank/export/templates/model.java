import java.util.Arrays;

public final class MODEL {
private static final String[] names = names().split("\n");
private static final double[] numbers = Arrays.stream(tables().split(",")).mapToDouble(Double::parseDouble).toArray();
private static int place = 0;

private static double[] doubles(int count) {
    place += count;
    return Arrays.copyOfRange(numbers, place - count, place);
}

private static int[] ints(int count) {
    return Arrays.stream(doubles(count)).mapToInt(number -> (int) number).toArray();
}

// Names of the features, in the order of a row. NaN is a missing value.
public static String[] features() {
    return names.clone();
}

// The score of a model without trees, and 1 if numbers are rounded to float32, as the engine does.
private static final double[] head = doubles(2);
private static final double[] thresholds = doubles(NODES);
private static final double[] leaves = doubles(LEAVES);
private static final int[] columns = ints(NODES);
// Children: a node, or -1 - leaf.
private static final int[] lefts = ints(NODES);
private static final int[] rights = ints(NODES);
// NAN_LEFT: missing values go left; ZERO_IS_MISSING: zeros are missing; CATEGORICAL: the threshold is a set of categories, which go left; LISTED_RIGHT: right.
private static final int[] kinds = ints(NODES);
private static final int[] roots = ints(TREES);
// Set i of categories: bit c % 32 of word c / 32 of words[ends[i]] to words[ends[i + 1]].
private static final int[] words = ints(WORDS);
private static final int[] ends = ints(ENDS);

private static double number(double value) {
    if (head[1] == 0) {
        return value;
    }
    return (float) value;
}

private static boolean goesLeft(double value, int node) {
    int kind = kinds[node];
    if ((kind & CATEGORICAL) != 0 && value == value) {
        boolean others = (kind & LISTED_RIGHT) != 0;
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

private static double leaf(double[] row, int root) {
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
public static double score(double[] row) {
    if (row.length != WIDTH) {
        throw new IllegalArgumentException("expected WIDTH features");
    }
    double total = head[0];
    for (int root : roots) {
        total = number(total + leaf(row, root));
    }
    return total;
}

private static String names() {
    return String.join("", new String[] {
NAMES
    });
}

private static String tables() {
    return String.join("", new String[] {
TABLES
    });
}
}
