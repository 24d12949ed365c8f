package units

import "strconv"

// Count returns a number with a noun: "1 replica", "2 replicas".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// Verb returns the form of a verb for a number of subjects.
func Verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
