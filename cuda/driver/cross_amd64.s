//go:build linux

#include "textflag.h"

// Offsets in list and command of cross.go.
#define COMMANDS 0
#define N 8
#define DONE 16
#define RESULT 24
#define COMMAND 104

GLOBL ·runListAddress(SB), NOPTR|RODATA, $8
DATA ·runListAddress(SB)/8, $runList(SB)

// runList(l *list) has C's calling convention and runs on a system stack: l is in DI; BX, BP and
// R12 to R15 are callee-saved. Six arguments are passed in registers and six on the stack, which is
// aligned to 16 bytes at each call.
TEXT runList(SB), NOSPLIT|NOFRAME, $0
	PUSHQ BP
	PUSHQ BX
	PUSHQ R12
	SUBQ  $48, SP
	MOVQ  DI, BX
	MOVQ  COMMANDS(BX), R12

next:
	MOVQ DONE(BX), AX
	CMPQ AX, N(BX)
	JGE  end
	MOVQ 56(R12), AX
	MOVQ AX, 0(SP)
	MOVQ 64(R12), AX
	MOVQ AX, 8(SP)
	MOVQ 72(R12), AX
	MOVQ AX, 16(SP)
	MOVQ 80(R12), AX
	MOVQ AX, 24(SP)
	MOVQ 88(R12), AX
	MOVQ AX, 32(SP)
	MOVQ 96(R12), AX
	MOVQ AX, 40(SP)
	MOVQ 8(R12), DI
	MOVQ 16(R12), SI
	MOVQ 24(R12), DX
	MOVQ 32(R12), CX
	MOVQ 40(R12), R8
	MOVQ 48(R12), R9
	MOVQ 0(R12), R10
	XORL AX, AX
	CALL R10
	TESTL AX, AX
	JNE  failed
	INCQ DONE(BX)
	ADDQ $COMMAND, R12
	JMP  next

failed:
	MOVLQSX AX, AX
	MOVQ    AX, RESULT(BX)

end:
	ADDQ $48, SP
	POPQ R12
	POPQ BX
	POPQ BP
	RET
