// Package pages has what tools share that write pages of docs.
package pages

import (
	"strings"
	"unicode/utf8"
)

// columns is the width to which the prose of a page is wrapped.
const columns = 118

// Wrap breaks a paragraph into lines of at most 118 columns. It does not break words at hyphens, since Markdown shows a
// line break as a space.
func Wrap(text string) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case column == 0:
		case column+1+n > columns:
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
