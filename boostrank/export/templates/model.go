package MODEL

import (
	"strconv"
	"strings"
)

// Features has the names of the features, in the order of a row. NaN is a missing value.
var Features = strings.Split(names(), "\n")

var numbers = strings.Split(tables(), ",")
var place = 0

func doubles(count int) []float64 {
	found := make([]float64, count)
	for i := range found {
		found[i], _ = strconv.ParseFloat(numbers[place+i], 64)
	}
	place += count
	return found
}

func ints(count int) []int32 {
	found := make([]int32, count)
	for i, number := range doubles(count) {
		found[i] = int32(number)
	}
	return found
}

// The score of a model without trees, and 1 if numbers are rounded to float32, as the engine does.
var head = doubles(2)
var thresholds = doubles(NODES)
var leaves = doubles(LEAVES)
var columns = ints(NODES)
// Children: a node, or -1 - leaf.
var lefts = ints(NODES)
var rights = ints(NODES)
// NAN_LEFT: missing values go left; ZERO_IS_MISSING: zeros are missing; CATEGORICAL: the threshold is a set of categories, which go left; LISTED_RIGHT: right.
var kinds = ints(NODES)
var roots = ints(TREES)
// Set i of categories: bit c % 32 of word c / 32 of words[ends[i]] to words[ends[i + 1]].
var words = ints(WORDS)
var ends = ints(ENDS)

func number(value float64) float64 {
	if head[1] == 0 {
		return value
	}
	return float64(float32(value))
}

func goesLeft(value float64, node int32) bool {
	kind := kinds[node]
	if (kind & CATEGORICAL) != 0 && value == value {
		others := (kind & LISTED_RIGHT) != 0
		begin := ends[int32(thresholds[node])]
		end := ends[int32(thresholds[node]) + 1]
		if value <= -1 || value >= 32 * float64(end - begin) || (value < 0 && others) {
			return others
		}
		category := int32(value)
		return (((words[begin + (category >> 5)] >> (category & 31)) & 1) != 0) != others
	}
	if value != value || ((kind & ZERO_IS_MISSING) != 0 && value >= -TINY && value <= TINY) {
		return (kind & NAN_LEFT) != 0
	}
	return value <= thresholds[node]
}

func leaf(row []float64, root int32) float64 {
	node := root
	for node >= 0 {
		if goesLeft(number(row[columns[node]]), node) {
			node = lefts[node]
		} else {
			node = rights[node]
		}
	}
	return leaves[-1 - node]
}

// Score returns the score of a document: higher is better within a query.
func Score(row []float64) float64 {
	if len(row) != WIDTH {
		panic("expected WIDTH features")
	}
	total := head[0]
	for _, root := range roots {
		total = number(total + leaf(row, root))
	}
	return total
}

func names() string {
	return strings.Join([]string{
NAMES
	}, "")
}

func tables() string {
	return strings.Join([]string{
TABLES
	}, "")
}
