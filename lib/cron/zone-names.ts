import { distance as editDistance } from 'fastest-levenshtein';
import { Temporal } from 'temporal-polyfill';
import { invalidTimeZone } from '../errors/errors.js';

/**
 * The name in the spelling of the tz database: `europe/berlin` becomes `Europe/Berlin`. Links keep their name.
 *
 * @throws {InvalidScheduleError} for names that are unknown, and for those that do not mean what they seem to: Windows
 * names, abbreviations (`EST` never changes its clock, New York does) and bare offsets (`UTC+2`).
 */
export function resolveTimeZone(name: string): string {
  if (typeof name !== 'string' || name === '') {
    throw invalidTimeZone(String(name), 'is not a name; write an IANA name such as "Europe/Berlin".');
  }
  const meaning = meaningOf(name);
  if (meaning?.refused) {
    const instead = meaning.zone
      ? `"${meaning.zone}" or the IANA name of another region`
      : 'the IANA name of the region';
    throw invalidTimeZone(name, `is ${meaning.kind}; write ${instead}.`);
  }
  const offset = offsetZone(name);
  if (offset !== null) {
    throw invalidTimeZone(name, `is a fixed offset; write the IANA name of a region${offset}.`);
  }
  try {
    return Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(name).timeZoneId;
  } catch (cause) {
    throw invalidTimeZone(name, `is unknown; ${suggestZone(name)}`, { cause });
  }
}

/** What is worth telling the owner of a zone that is accepted, or null. */
export function timeZoneWarning(name: string): string | null {
  const meaning = meaningOf(name);
  if (meaning && !meaning.refused) {
    const instead = `"${meaning.zone}" or the IANA name of another region`;
    return `Time zone "${name}" is ${meaning.kind}; ${instead} says what is meant.`;
  }
  const reversed = /^Etc\/GMT([+-])(\d+)$/i.exec(name);
  if (reversed && reversed[2] !== '0') {
    const offset = `UTC${reversed[1] === '+' ? '-' : '+'}${reversed[2]}`;
    return `Time zone "${name}" is ${offset}: the sign is reversed in these names.`;
  }
  return null;
}

/** What a name that is not a region seems to mean. */
interface ZoneMeaning {
  /** For a sentence: "is …". */
  readonly kind: string;
  /** An IANA name for one of the places that may be meant, where one is known. */
  readonly zone: string | null;
  readonly refused: boolean;
}

/** Null for a name that is neither an abbreviation nor a Windows name. */
function meaningOf(name: string): ZoneMeaning | null {
  const upper = name.toUpperCase();
  if (Object.hasOwn(ABBREVIATIONS, upper)) {
    return { kind: 'an abbreviation', zone: ABBREVIATIONS[upper], refused: true };
  }
  if (Object.hasOwn(OLD_RULES, upper)) {
    return { kind: 'an abbreviation kept for old systems', zone: OLD_RULES[upper], refused: false };
  }
  const windows = name.replace(/ (?:Standard|Daylight|Summer) Time(?= \(|$)/i, '');
  if (windows !== name) {
    return { kind: 'a Windows name', zone: WINDOWS[windows.toLowerCase()] ?? null, refused: true };
  }
  return null;
}

/** For a bare offset such as `UTC+2` or `+02:00`, how to go on after "the IANA name of a region"; else null. */
function offsetZone(name: string): string | null {
  const match = /^(?:UTC|GMT|Z)? ?([+-])(\d{1,2})(?::?(\d{2}))?$/i.exec(name);
  if (!match) {
    return null;
  }
  const [, sign, hours, minutes = '0'] = match;
  if (Number(minutes) !== 0) {
    return ' such as "Asia/Kolkata"';
  }
  const reversed = sign === '+' ? '-' : '+';
  return Number(hours) === 0
    ? ', or "UTC"'
    : `, or "Etc/GMT${reversed}${Number(hours)}" (the sign is reversed in these names)`;
}

/** A sentence that helps with a misspelled name. */
function suggestZone(name: string): string {
  const wanted = name.toLowerCase().replaceAll(' ', '_');
  let best = { zone: '', distance: Math.max(1, Math.floor(wanted.length / 4)) + 1 };
  for (const zone of Intl.supportedValuesOf('timeZone')) {
    const lower = zone.toLowerCase();
    const distance = Math.min(
      editDistance(wanted, lower),
      editDistance(wanted, lower.slice(lower.lastIndexOf('/') + 1)),
    );
    if (distance < best.distance) {
      best = { zone, distance };
    }
  }
  return best.zone ? `did you mean "${best.zone}"?` : 'write an IANA name such as "Europe/Berlin".';
}

/** Ambiguous, or fixed where the place is not. */
const ABBREVIATIONS: Readonly<Record<string, string>> = {
  EST: 'America/New_York',
  EDT: 'America/New_York',
  ET: 'America/New_York',
  CST: 'America/Chicago',
  CDT: 'America/Chicago',
  CT: 'America/Chicago',
  MST: 'America/Denver',
  MDT: 'America/Denver',
  MT: 'America/Denver',
  PST: 'America/Los_Angeles',
  PDT: 'America/Los_Angeles',
  PT: 'America/Los_Angeles',
  AKST: 'America/Anchorage',
  AKDT: 'America/Anchorage',
  HST: 'Pacific/Honolulu',
  AST: 'America/Halifax',
  ADT: 'America/Halifax',
  NST: 'America/St_Johns',
  NDT: 'America/St_Johns',
  BRT: 'America/Sao_Paulo',
  ART: 'America/Argentina/Buenos_Aires',
  CLT: 'America/Santiago',
  BST: 'Europe/London',
  WEST: 'Europe/Lisbon',
  CEST: 'Europe/Berlin',
  MEZ: 'Europe/Berlin',
  MESZ: 'Europe/Berlin',
  EEST: 'Europe/Athens',
  MSK: 'Europe/Moscow',
  TRT: 'Europe/Istanbul',
  SAST: 'Africa/Johannesburg',
  EAT: 'Africa/Nairobi',
  WAT: 'Africa/Lagos',
  CAT: 'Africa/Maputo',
  GST: 'Asia/Dubai',
  PKT: 'Asia/Karachi',
  IST: 'Asia/Kolkata',
  ICT: 'Asia/Bangkok',
  WIB: 'Asia/Jakarta',
  SGT: 'Asia/Singapore',
  HKT: 'Asia/Hong_Kong',
  JST: 'Asia/Tokyo',
  KST: 'Asia/Seoul',
  AWST: 'Australia/Perth',
  ACST: 'Australia/Adelaide',
  ACDT: 'Australia/Adelaide',
  AEST: 'Australia/Sydney',
  AEDT: 'Australia/Sydney',
  NZST: 'Pacific/Auckland',
  NZDT: 'Pacific/Auckland',
};

/** In the tz database, and with the rules of a region. */
const OLD_RULES: Readonly<Record<string, string>> = {
  CET: 'Europe/Brussels',
  MET: 'Europe/Brussels',
  EET: 'Europe/Athens',
  WET: 'Europe/Lisbon',
  EST5EDT: 'America/New_York',
  CST6CDT: 'America/Chicago',
  MST7MDT: 'America/Denver',
  PST8PDT: 'America/Los_Angeles',
};

/** By the Windows name without its "Standard Time". */
const WINDOWS: Readonly<Record<string, string>> = {
  dateline: 'Etc/GMT+12',
  hawaiian: 'Pacific/Honolulu',
  alaskan: 'America/Anchorage',
  pacific: 'America/Los_Angeles',
  'us mountain': 'America/Phoenix',
  mountain: 'America/Denver',
  central: 'America/Chicago',
  'central america': 'America/Guatemala',
  'canada central': 'America/Regina',
  'central (mexico)': 'America/Mexico_City',
  eastern: 'America/New_York',
  'us eastern': 'America/Indianapolis',
  'sa pacific': 'America/Bogota',
  cuba: 'America/Havana',
  venezuela: 'America/Caracas',
  atlantic: 'America/Halifax',
  paraguay: 'America/Asuncion',
  'sa western': 'America/La_Paz',
  'pacific sa': 'America/Santiago',
  newfoundland: 'America/St_Johns',
  'e. south america': 'America/Sao_Paulo',
  argentina: 'America/Buenos_Aires',
  greenland: 'America/Nuuk',
  montevideo: 'America/Montevideo',
  azores: 'Atlantic/Azores',
  'cape verde': 'Atlantic/Cape_Verde',
  gmt: 'Europe/London',
  greenwich: 'Atlantic/Reykjavik',
  morocco: 'Africa/Casablanca',
  'w. europe': 'Europe/Berlin',
  'central europe': 'Europe/Budapest',
  romance: 'Europe/Paris',
  'central european': 'Europe/Warsaw',
  'w. central africa': 'Africa/Lagos',
  gtb: 'Europe/Bucharest',
  'e. europe': 'Europe/Chisinau',
  fle: 'Europe/Kiev',
  egypt: 'Africa/Cairo',
  'middle east': 'Asia/Beirut',
  jordan: 'Asia/Amman',
  syria: 'Asia/Damascus',
  israel: 'Asia/Jerusalem',
  'south africa': 'Africa/Johannesburg',
  turkey: 'Europe/Istanbul',
  arabic: 'Asia/Baghdad',
  arab: 'Asia/Riyadh',
  'e. africa': 'Africa/Nairobi',
  belarus: 'Europe/Minsk',
  russian: 'Europe/Moscow',
  iran: 'Asia/Tehran',
  arabian: 'Asia/Dubai',
  georgian: 'Asia/Tbilisi',
  azerbaijan: 'Asia/Baku',
  caucasus: 'Asia/Yerevan',
  afghanistan: 'Asia/Kabul',
  'west asia': 'Asia/Tashkent',
  ekaterinburg: 'Asia/Yekaterinburg',
  pakistan: 'Asia/Karachi',
  india: 'Asia/Kolkata',
  'sri lanka': 'Asia/Colombo',
  nepal: 'Asia/Kathmandu',
  'central asia': 'Asia/Almaty',
  bangladesh: 'Asia/Dhaka',
  myanmar: 'Asia/Yangon',
  'se asia': 'Asia/Bangkok',
  china: 'Asia/Shanghai',
  singapore: 'Asia/Singapore',
  taipei: 'Asia/Taipei',
  'w. australia': 'Australia/Perth',
  tokyo: 'Asia/Tokyo',
  korea: 'Asia/Seoul',
  'north korea': 'Asia/Pyongyang',
  'cen. australia': 'Australia/Adelaide',
  'aus central': 'Australia/Darwin',
  'e. australia': 'Australia/Brisbane',
  'aus eastern': 'Australia/Sydney',
  tasmania: 'Australia/Hobart',
  'lord howe': 'Australia/Lord_Howe',
  'west pacific': 'Pacific/Port_Moresby',
  vladivostok: 'Asia/Vladivostok',
  'new zealand': 'Pacific/Auckland',
  fiji: 'Pacific/Fiji',
  'chatham islands': 'Pacific/Chatham',
  tonga: 'Pacific/Tongatapu',
  samoa: 'Pacific/Apia',
  'line islands': 'Pacific/Kiritimati',
};
