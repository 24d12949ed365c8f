//go:build linux

package driver

import "reflect"

// SymbolNames returns the functions of the library that are used.
func SymbolNames() (names []string) {
	for field := range reflect.TypeFor[symbols]().Fields() {
		if field.Tag.Get("since") != "never" {
			names = append(names, field.Tag.Get("cu"))
		}
	}
	return names
}
