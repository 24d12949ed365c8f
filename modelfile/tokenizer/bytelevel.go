package tokenizer

import "strings"

// GPT-2's alphabet represents each byte by a printable character.
var byteToRune, runeToByte = alphabet()

func alphabet() (runes [256]rune, bytes map[rune]byte) {
	bytes = make(map[rune]byte, 256)
	next := rune(256)
	for b := range runes {
		r := rune(b)
		if !(r >= '!' && r <= '~' || r >= 0xa1 && r <= 0xac || r >= 0xae && r <= 0xff) {
			r = next
			next++
		}
		runes[b] = r
		bytes[r] = byte(b)
	}
	return runes, bytes
}

func bytesToText(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteRune(byteToRune[s[i]])
	}
	return b.String()
}

// textToBytes is the inverse of bytesToText. A token with characters outside the alphabet is
// returned unchanged.
func textToBytes(s string) []byte {
	out := make([]byte, 0, len(s))
	for _, r := range s {
		b, ok := runeToByte[r]
		if !ok {
			return []byte(s)
		}
		out = append(out, b)
	}
	return out
}
