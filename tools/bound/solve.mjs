// Solves mixed-integer programs with HiGHS (highs.dev, MIT licence). Standard input is JSON: {"problems": [text in CPLEX
// LP format], "gap": relative gap, "seconds": limit for each}. Standard output is a list of {"status", "objective"}.
import { readFileSync } from "node:fs";
import loadHighs from "highs";

const { problems, gap, seconds } = JSON.parse(readFileSync(0, "utf8"));
const highs = await loadHighs();
const results = problems.map((text) => {
  const solved = highs.solve(text, { output_flag: false, mip_rel_gap: gap, time_limit: seconds, random_seed: 1 });
  return { status: solved.Status, objective: solved.ObjectiveValue ?? null };
});
process.stdout.write(JSON.stringify(results));
