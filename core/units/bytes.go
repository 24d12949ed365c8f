package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

var units = []struct {
	name  string
	bytes float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

// ParseBytes parses a size such as "512MiB", "1.5 GiB" or "4096". A size without a unit is in
// bytes.
func ParseBytes(s string) (int64, error) {
	text, unit := strings.TrimSpace(s), 1.0
	for _, u := range units {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			text, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 0 || math.IsNaN(n) || n*unit >= math.MaxInt64 {
		return 0, fmt.Errorf("%q is not a size; write it like 512MiB or 1.5GiB", s)
	}
	return int64(n * unit), nil
}

// FormatBytes formats a size with a binary unit and at most one decimal.
func FormatBytes(n int64) string {
	for i := 3; i >= 0; i-- {
		if u := units[i]; float64(n) >= u.bytes {
			return strings.TrimSuffix(strconv.FormatFloat(float64(n)/u.bytes, 'f', 1, 64), ".0") + " " + u.name
		}
	}
	return strconv.FormatInt(n, 10) + " B"
}
