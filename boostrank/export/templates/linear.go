package MODEL

import (
	"strconv"
	"strings"
)

// Features has the names of the features, in the order of a row. NaN is a missing value.
var Features = strings.Split(names(), "\n")

var numbers = parsed(strings.Split(tables(), ","))
var bias = numbers[0]
var weights = numbers[1 : 1+WIDTH]

// Values that replace missing ones.
var fill = numbers[1+WIDTH:]

func parsed(words []string) []float64 {
	values := make([]float64, len(words))
	for i, word := range words {
		values[i], _ = strconv.ParseFloat(word, 64)
	}
	return values
}

// Score returns the score of a document: higher is better within a query.
func Score(row []float64) float64 {
	if len(row) != WIDTH {
		panic("expected WIDTH features")
	}
	total := bias
	for i, value := range row {
		if value != value {
			value = fill[i]
		}
		total += float64(weights[i] * value) // never fused
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
