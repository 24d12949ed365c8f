// Package docs holds the documentation as Markdown, so that a node can serve it.
package docs

import "embed"

// Pages are the Markdown files of this folder and of adr.
//
//go:embed *.md adr/*.md
var Pages embed.FS
