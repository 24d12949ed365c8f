//go:build linux

#include "textflag.h"

GLOBL ·runWideAddress(SB), NOPTR|RODATA, $8
DATA ·runWideAddress(SB)/8, $runWide(SB)

// runWide(w *wide) has C's calling convention: six arguments are passed in registers and fourteen
// on the stack, which is aligned to 16 bytes at the call. A result other than 0 is returned with
// blasFailed added.
TEXT runWide(SB), NOSPLIT|NOFRAME, $0
	SUBQ $120, SP
	MOVQ DI, R11
	XORL CX, CX

next:
	MOVQ 56(R11)(CX*8), AX
	MOVQ AX, 0(SP)(CX*8)
	INCQ CX
	CMPQ CX, $14
	JLT  next
	MOVQ 8(R11), DI
	MOVQ 16(R11), SI
	MOVQ 24(R11), DX
	MOVQ 32(R11), CX
	MOVQ 40(R11), R8
	MOVQ 48(R11), R9
	MOVQ 0(R11), R10
	XORL AX, AX
	CALL R10
	TESTL AX, AX
	JEQ  end
	ADDL $0x100000, AX

end:
	ADDQ $120, SP
	RET
