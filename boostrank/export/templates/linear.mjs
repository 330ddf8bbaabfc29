// Names of the features, in the order of a row. NaN, null and undefined are missing values.
export const features = names().split("\n");
const numbers = tables().split(",").map(Number);
const bias = numbers[0];
const weights = numbers.slice(1, 1 + WIDTH);
// Values that replace missing ones.
const fill = numbers.slice(1 + WIDTH);

// Score of a document: higher is better within a query.
export function score(row) {
    if (row.length != WIDTH) {
        throw new RangeError("expected WIDTH features");
    }
    let total = bias;
    for (let i = 0; i < WIDTH; i++) {
        const value = row[i] ?? NaN;
        total += weights[i] * (value == value ? value : fill[i]);
    }
    return total;
}

function names() {
    return [
NAMES
    ].join("");
}

function tables() {
    return [
TABLES
    ].join("");
}
