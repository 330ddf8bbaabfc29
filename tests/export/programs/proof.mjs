import { readFileSync } from "node:fs";
import { score } from "./model.mjs";
const lines = readFileSync(0, "utf8").trimEnd().split("\n");
process.stdout.write(lines.map((line) => score(line.split(" ").map(Number))).join("\n"));
