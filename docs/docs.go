// Package docs holds the documentation as Markdown, so that a node can serve it.
package docs

import "embed"

// Pages are the Markdown files of this folder and its sub-folders.
//
//go:embed *.md adr/*.md gpu/*.md howto/*.md reference/*.md simulations/*.md
var Pages embed.FS
