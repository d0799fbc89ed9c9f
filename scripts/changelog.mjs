/**
 * Gives the unreleased changes the version that `npm version` has just set: its `version` script. Fails where there are
 * none, for then there is nothing to release.
 */
import { readFileSync, writeFileSync } from 'node:fs';

const FILE = 'CHANGELOG.md';
const HEADING = '## Unreleased\n';

const { version } = JSON.parse(readFileSync('package.json', 'utf8'));
const [before, after] = readFileSync(FILE, 'utf8').split(HEADING);
if (after === undefined) throw new Error(`${FILE} has no heading "## Unreleased".`);
if (after.split('\n## ')[0].trim() === '') throw new Error(`${FILE} has nothing under "## Unreleased".`);
const today = new Date().toISOString().slice(0, 10);
writeFileSync(FILE, `${before}${HEADING}\n## ${version} - ${today}\n${after}`);
