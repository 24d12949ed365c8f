package main

import (
	"strings"
	"unicode/utf8"
)

// pageColumns is the width to which the prose of a page is wrapped.
const pageColumns = 118

// wrap breaks a paragraph into lines of at most pageColumns columns.
func wrap(text string) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case column == 0:
		case column+1+n > pageColumns:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}
