package reference

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// FormatCost formats a cost as the Python program prints it, by format(x, '>6.4'): four
// significant digits, at least one of them after the point, an exponent below 1e-4 and
// where four digits leave none for the fraction, and a width of at least 6.
func FormatCost(x float64) string {
	return fmt.Sprintf("%6s", pythonGeneral(x))
}

func pythonGeneral(x float64) string {
	switch {
	case math.IsNaN(x):
		return "nan"
	case math.IsInf(x, 1):
		return "inf"
	case math.IsInf(x, -1):
		return "-inf"
	case x == 0:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	const precision = 4
	digits := strconv.FormatFloat(x, 'e', precision-1, 64)
	mantissa, exponent, _ := strings.Cut(digits, "e")
	e, _ := strconv.Atoi(exponent)
	if e < -4 || e >= precision-1 {
		if strings.Contains(mantissa, ".") {
			mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
		}
		return mantissa + "e" + exponent
	}
	fixed := strings.TrimRight(strconv.FormatFloat(x, 'f', precision-1-e, 64), "0")
	if strings.HasSuffix(fixed, ".") {
		fixed += "0"
	}
	return fixed
}
