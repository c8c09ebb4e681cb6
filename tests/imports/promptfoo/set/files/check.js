module.exports = (output, context) => output.split(" ").length === 3;
