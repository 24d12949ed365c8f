package chat

import (
	"fmt"
	"strings"

	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// maxNesting is how many brackets or tags may be open at once: the parser uses much stack for each.
const maxNesting = 64

// prepare cuts the blanks before a block where they begin a line; gonja would cut them within a line, too.
func prepare(text string, cfg *config.Config) (string, error) {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text) // as the lexer does, which counts positions thereafter
	var out strings.Builder
	done, depth := 0, 0
	for s := tokens.LexAll(text, cfg); !s.End(); {
		switch token := s.Next(); token.Type {
		case tokens.BlockBegin, tokens.CommentBegin:
			cut := max(done, lineStart(text, token.Pos))
			out.WriteString(text[done:cut])
			done = token.Pos
		case tokens.LeftParenthesis, tokens.LeftBracket, tokens.LeftBrace:
			if depth++; depth > maxNesting {
				return "", fmt.Errorf("chat template: line %d: more than %d brackets are open", token.Line, maxNesting)
			}
		case tokens.RightParenthesis, tokens.RightBracket, tokens.RightBrace:
			depth--
		}
	}
	return out.String() + text[done:], nil
}

// lineStart is where the line of a block begins if nothing but blanks is before the block, else the block's own place.
func lineStart(text string, block int) int {
	before := strings.TrimRight(text[:block], " \t")
	keep := len(text) > block+2 && text[block+2] == '+'
	if keep || before != "" && !strings.HasSuffix(before, "\n") {
		return block
	}
	return len(before)
}
