package main
import ("fmt"; "io"; "os"; "strconv"; "strings")
func main() {
    text, _ := io.ReadAll(os.Stdin)
    for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
        row := []float64{}
        for _, word := range strings.Fields(line) {
            value, _ := strconv.ParseFloat(word, 64)
            row = append(row, value)
        }
        fmt.Println(Score(row))
    }
}
