// Asks a collector with the code of Perses' Pyroscope plugin: `ADDRESS TOKEN SERVICE TYPE FROM UNTIL` (ms).
const client = require("@perses-dev/pyroscope-plugin/lib/cjs/model/pyroscope-client.js");
const { getProfileData } = require("@perses-dev/pyroscope-plugin/lib/cjs/plugins/pyroscope-profile-query/get-profile-data.js");

const [address, token, service, profileType, from, until] = process.argv.slice(2);
const authorization = `Basic ${Buffer.from(`perses:${token}`).toString("base64")}`;
const options = { datasourceUrl: address, headers: { "content-type": "application/json", authorization } };
const range = { start: Number(from), end: Number(until) };
const store = {
  getDatasourceClient: async () => ({ searchProfiles: (params) => client.searchProfiles(params, options) }),
};

async function main() {
  const absoluteTimeRange = { start: new Date(range.start), end: new Date(range.end) };
  const spec = { service, profileType, filters: [{ labelName: "version", operator: "=~", labelValue: "1|2" }] };
  const types = await client.searchProfileTypes({}, options, range);
  const labels = await client.searchLabelNames({}, options, range);
  const values = await client.searchLabelValues({}, options, { ...range, name: "version" });
  const services = await client.searchServices({}, options);
  const profile = await getProfileData(spec, { datasourceStore: store, absoluteTimeRange });
  const types_ = types.profileTypes.map((one) => one.ID);
  console.log(JSON.stringify({ types: types_, labels: labels.names, values: values.names, services: services.names, profile }));
}

main();
