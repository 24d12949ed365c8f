package dst

import "slices"

// Shrink returns the shortest list of faults, taken from those given, with which fails is still
// true. It removes halves first, then smaller parts, then single faults.
func Shrink(faults []Fault, fails func([]Fault) bool) []Fault {
	for part := (len(faults) + 1) / 2; part > 0; part /= 2 {
		for i := 0; i < len(faults); {
			fewer := slices.Concat(faults[:i], faults[min(i+part, len(faults)):])
			if fails(fewer) {
				faults = fewer
			} else {
				i += part
			}
		}
	}
	return faults
}
