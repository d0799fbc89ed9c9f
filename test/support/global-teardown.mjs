export default async function stopDatabaseServer() {
  await globalThis.testDatabaseServer?.stop();
}
