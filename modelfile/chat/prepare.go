package chat

import (
	"fmt"
	"strings"

	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// maxNesting limits the number of open brackets or tags, since the parser uses much stack for each.
const maxNesting = 64

// prepare removes the blanks before a block at the start of a line. gonja would also remove them
// within a line.
func prepare(text string, cfg *config.Config) (string, error) {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text) // as the lexer does before it counts positions
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

// lineStart returns the start of a block's line if only blanks precede the block, or else the
// block's position.
func lineStart(text string, block int) int {
	before := strings.TrimRight(text[:block], " \t")
	keep := len(text) > block+2 && text[block+2] == '+'
	if keep || before != "" && !strings.HasSuffix(before, "\n") {
		return block
	}
	return len(before)
}
