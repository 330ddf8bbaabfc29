import java.util.Arrays;

public final class MODEL {
private static final String[] names = names().split("\n");
private static final double[] numbers = Arrays.stream(tables().split(",")).mapToDouble(Double::parseDouble).toArray();
private static final double bias = numbers[0];
private static final double[] weights = Arrays.copyOfRange(numbers, 1, 1 + WIDTH);
// Values that replace missing ones.
private static final double[] fill = Arrays.copyOfRange(numbers, 1 + WIDTH, 1 + 2 * WIDTH);

// Names of the features, in the order of a row. NaN is a missing value.
public static String[] features() {
    return names.clone();
}

// Score of a document: higher is better within a query.
public static double score(double[] row) {
    if (row.length != WIDTH) {
        throw new IllegalArgumentException("expected WIDTH features");
    }
    double total = bias;
    for (int i = 0; i < WIDTH; i++) {
        total += weights[i] * (row[i] == row[i] ? row[i] : fill[i]);
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
