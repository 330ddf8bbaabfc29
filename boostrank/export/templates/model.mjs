// Names of the features, in the order of a row. NaN, null and undefined are missing values.
export const features = names().split("\n");
const numbers = tables().split(",").map(Number);
let place = 0;

function doubles(count) {
    place += count;
    return Float64Array.from(numbers.slice(place - count, place));
}

function ints(count) {
    return Int32Array.from(doubles(count));
}

// The score of a model without trees, and 1 if numbers are rounded to float32, as the engine does.
const head = doubles(2);
const thresholds = doubles(NODES);
const leaves = doubles(LEAVES);
const columns = ints(NODES);
// Children: a node, or -1 - leaf.
const lefts = ints(NODES);
const rights = ints(NODES);
// NAN_LEFT: missing values go left; ZERO_IS_MISSING: zeros are missing; CATEGORICAL: the threshold is a set of categories, which go left; LISTED_RIGHT: right.
const kinds = ints(NODES);
const roots = ints(TREES);
// Set i of categories: bit c % 32 of word c / 32 of words[ends[i]] to words[ends[i + 1]].
const words = ints(WORDS);
const ends = ints(ENDS);

function number(value) {
    if (head[1] == 0) {
        return value;
    }
    return Math.fround(value);
}

function goesLeft(value, node) {
    let kind = kinds[node];
    if ((kind & CATEGORICAL) != 0 && value == value) {
        let others = (kind & LISTED_RIGHT) != 0;
        let begin = ends[Math.trunc(thresholds[node])];
        let end = ends[Math.trunc(thresholds[node]) + 1];
        if (value <= -1 || value >= 32 * (end - begin) || (value < 0 && others)) {
            return others;
        }
        let category = Math.trunc(value);
        return (((words[begin + (category >> 5)] >> (category & 31)) & 1) != 0) != others;
    }
    if (value != value || ((kind & ZERO_IS_MISSING) != 0 && value >= -TINY && value <= TINY)) {
        return (kind & NAN_LEFT) != 0;
    }
    return value <= thresholds[node];
}

function leaf(row, root) {
    let node = root;
    while (node >= 0) {
        if (goesLeft(number(row[columns[node]] ?? NaN), node)) {
            node = lefts[node];
        } else {
            node = rights[node];
        }
    }
    return leaves[-1 - node];
}

// Score of a document: higher is better within a query.
export function score(row) {
    if (row.length != WIDTH) {
        throw new RangeError("expected WIDTH features");
    }
    let total = head[0];
    for (const root of roots) {
        total = number(total + leaf(row, root));
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
